// Package before_compaction is the export `before-compaction`: a plugin that imports it, and exports it in wit/world.wit, has the
// hook.
package before_compaction

import (
	"project/pinion"
	wit "project/pinion/contract/pinion_plugin_before_compaction"
	types "project/pinion/contract/pinion_plugin_types"
	witTypes "project/pinion/contract/wit/types"
)

// Compaction describes what a summary replaces.
type Compaction = wit.Compaction

var instructions func(*pinion.Call, Compaction) string

// Instructions sets the function that returns further instructions for a summary; an empty text is none.
func Instructions(function func(*pinion.Call, Compaction) string) { instructions = function }

func exportedInstructions(context types.CallContext, compaction wit.Compaction) witTypes.Option[string] {
	text := instructions(pinion.CallOf(context, pinion.Reads), compaction)
	if text == "" {
		return witTypes.None[string]()
	}
	return witTypes.Some(text)
}
