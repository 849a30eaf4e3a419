// Package before_prompt is the export `before-prompt`: a plugin that imports it, and exports it in wit/world.wit, has the hook.
package before_prompt

import (
	"project/pinion"
	wit "project/pinion/contract/pinion_plugin_before_prompt"
	types "project/pinion/contract/pinion_plugin_types"
)

// Verdict is the answer to a check.
type Verdict = wit.PromptVerdict

// Proceed sends the prompt.
func Proceed() Verdict { return wit.MakePromptVerdictProceed() }

// Warn shows the text to the user and sends the prompt.
func Warn(text string) Verdict { return wit.MakePromptVerdictWarn(text) }

// Reject shows the text to the user and sends nothing.
func Reject(text string) Verdict { return wit.MakePromptVerdictReject(text) }

// AddContext sends the text with the prompt.
func AddContext(text string) Verdict { return wit.MakePromptVerdictAddContext(text) }

var check func(*pinion.Call, string) Verdict

// Check sets the function that checks each prompt before it is sent. A check that panics rejects the prompt.
func Check(function func(hook *pinion.Call, prompt string) Verdict) { check = function }

func exportedCheck(context types.CallContext, prompt string) wit.PromptVerdict {
	return check(pinion.CallOf(context, pinion.Reads), prompt)
}
