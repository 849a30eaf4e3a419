// Package registry has the tools and commands of the plugin. It lies between the package pinion, which fills it, and the
// exports, which the contract calls.
package registry

import (
	"slices"

	"project/pinion/contract/pinion_plugin_commands"
	"project/pinion/contract/pinion_plugin_types"
)

// Tool is a registered tool.
type Tool struct {
	Definition pinion_plugin_types.ToolDefinition
	Run        func(pinion_plugin_types.CallContext, string) (pinion_plugin_types.ToolOutput, *pinion_plugin_types.ToolError)
}

// Command is a registered slash command.
type Command struct {
	Definition pinion_plugin_types.CommandDefinition
	Run        func(pinion_plugin_types.CallContext, string) ([]pinion_plugin_commands.Action, error)
	// Complete may be nil.
	Complete func(string) []pinion_plugin_commands.Completion
}

// Tools and Commands are in the order of registration.
var (
	Tools    []Tool
	Commands []Command
)

// Refresh registers and removes tools and commands; nil if they never change.
var Refresh func() error

// AddTool registers a tool in place of one with its name.
func AddTool(tool Tool) {
	is := func(one Tool) bool { return one.Definition.Name == tool.Definition.Name }
	if i := slices.IndexFunc(Tools, is); i >= 0 {
		Tools[i] = tool
	} else {
		Tools = append(Tools, tool)
	}
}

// AddCommand registers a command in place of one with its name.
func AddCommand(command Command) {
	is := func(one Command) bool { return one.Definition.Name == command.Definition.Name }
	if i := slices.IndexFunc(Commands, is); i >= 0 {
		Commands[i] = command
	} else {
		Commands = append(Commands, command)
	}
}

// Remove removes the tool and the command with a name.
func Remove(name string) {
	Tools = slices.DeleteFunc(Tools, func(tool Tool) bool { return tool.Definition.Name == name })
	Commands = slices.DeleteFunc(Commands, func(command Command) bool { return command.Definition.Name == name })
}

// Refreshed calls Refresh if there is one.
func Refreshed() error {
	if Refresh == nil {
		return nil
	}
	return Refresh()
}

// FindTool returns the tool with a name, which only a refresh may register.
func FindTool(name string) (Tool, bool) {
	is := func(tool Tool) bool { return tool.Definition.Name == name }
	if !slices.ContainsFunc(Tools, is) {
		_ = Refreshed()
	}
	if i := slices.IndexFunc(Tools, is); i >= 0 {
		return Tools[i], true
	}
	return Tool{}, false
}

// FindCommand returns the command with a name, which only a refresh may register.
func FindCommand(name string) (Command, bool) {
	is := func(command Command) bool { return command.Definition.Name == name }
	if !slices.ContainsFunc(Commands, is) {
		_ = Refreshed()
	}
	if i := slices.IndexFunc(Commands, is); i >= 0 {
		return Commands[i], true
	}
	return Command{}, false
}
