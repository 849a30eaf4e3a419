// Package after_tool_call is the export `after-tool-call`: a plugin that imports it, and exports it in wit/world.wit, has the
// hook.
package after_tool_call

import (
	"project/pinion"
	types "project/pinion/contract/pinion_plugin_types"
	witTypes "project/pinion/contract/wit/types"
)

// ToolCall is a call of a tool.
type ToolCall = types.ToolCall

// Outcome is what a call returned: an output, or an error.
type Outcome struct {
	Output *types.ToolOutput
	Err    *types.ToolError
}

// MapTexts replaces the texts of an output, or the message and the texts of an error.
func (outcome *Outcome) MapTexts(change func(string) string) {
	var parts []types.Content
	if outcome.Err != nil {
		outcome.Err.Message = change(outcome.Err.Message)
		parts = outcome.Err.Content
	} else {
		parts = outcome.Output.Content
	}
	for i, part := range parts {
		if part.Tag() == types.ContentText {
			parts[i] = types.MakeContentText(change(part.Text()))
		}
	}
}

var revise func(*pinion.Call, ToolCall, *Outcome) bool

// Revise sets the function that revises each outcome in place, and returns whether it did. With Err, a call fails; one that
// failed stays failed.
func Revise(function func(hook *pinion.Call, call ToolCall, outcome *Outcome) bool) { revise = function }

type result = witTypes.Result[types.ToolOutput, types.ToolError]

func exportedRevise(context types.CallContext, call types.ToolCall, given result) witTypes.Option[result] {
	var outcome Outcome
	if given.IsOk() {
		output := given.Ok()
		outcome.Output = &output
	} else {
		err := given.Err()
		outcome.Err = &err
	}
	switch {
	case !revise(pinion.CallOf(context, pinion.Reads), call, &outcome):
		return witTypes.None[result]()
	case outcome.Err != nil:
		return witTypes.Some(witTypes.Err[types.ToolOutput, types.ToolError](*outcome.Err))
	default:
		return witTypes.Some(witTypes.Ok[types.ToolOutput, types.ToolError](*outcome.Output))
	}
}
