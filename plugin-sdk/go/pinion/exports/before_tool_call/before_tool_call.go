// Package before_tool_call is the export `before-tool-call`: a plugin that imports it, and exports it in wit/world.wit, has the
// hook.
package before_tool_call

import (
	"project/pinion"
	wit "project/pinion/contract/pinion_plugin_before_tool_call"
	types "project/pinion/contract/pinion_plugin_types"
)

// ToolCall is a call of a tool.
type ToolCall = types.ToolCall

// Verdict is the answer to a check.
type Verdict = wit.Verdict

// Proceed leaves the call as it is.
func Proceed() Verdict { return wit.MakeVerdictProceed() }

// Deny stops the call; the model gets the text.
func Deny(text string) Verdict { return wit.MakeVerdictDeny(text) }

// Ask lets the user decide; the text says why.
func Ask(text string) Verdict { return wit.MakeVerdictAsk(text) }

// Rewrite runs the call with another input, which is JSON.
func Rewrite(input string) Verdict { return wit.MakeVerdictRewrite(input) }

var check func(*pinion.Call, ToolCall) Verdict

// Check sets the function that checks each call before it is approved. A check that panics denies the call.
func Check(function func(*pinion.Call, ToolCall) Verdict) { check = function }

func exportedCheck(context types.CallContext, call types.ToolCall) wit.Verdict {
	return check(pinion.CallOf(context, pinion.Reads), call)
}
