// Package commands is the export `commands`.
package commands

import (
	wit "project/pinion/contract/pinion_plugin_commands"
	types "project/pinion/contract/pinion_plugin_types"
	witTypes "project/pinion/contract/wit/types"
	"project/pinion/registry"
)

// ListCommands returns the registered commands.
func ListCommands() witTypes.Result[[]types.CommandDefinition, string] {
	var definitions []types.CommandDefinition
	for _, command := range registry.Commands {
		definitions = append(definitions, command.Definition)
	}
	return witTypes.Ok[[]types.CommandDefinition, string](definitions)
}

// CompleteArgument returns the completions of one of them.
func CompleteArgument(name string, typed string) []wit.Completion {
	command, isThere := registry.FindCommand(name)
	if !isThere || command.Complete == nil {
		return nil
	}
	return command.Complete(typed)
}

// RunCommand runs one of them.
func RunCommand(context types.CallContext, name string, input string) witTypes.Result[[]wit.Action, string] {
	command, isThere := registry.FindCommand(name)
	if !isThere {
		return witTypes.Err[[]wit.Action, string]("no command " + name)
	}
	actions, err := command.Run(context, input)
	if err != nil {
		return witTypes.Err[[]wit.Action, string](err.Error())
	}
	return witTypes.Ok[[]wit.Action, string](actions)
}
