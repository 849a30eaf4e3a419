// Package registry has the tools and commands of the plugin. It lies between the package pinion, which fills it, and the
// exports, which the contract calls.
package registry

import (
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
}

// Tools and Commands are in the order of registration.
var (
	Tools    []Tool
	Commands []Command
)
