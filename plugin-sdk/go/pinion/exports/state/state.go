// Package state is the export `state`, for plugins of lifetime `session`: a plugin that imports it, and exports it in
// wit/world.wit, hands over state when it is reloaded.
package state

import witTypes "project/pinion/contract/wit/types"

var (
	save    func() []byte
	restore func([]byte, string) error
)

// Save sets the function that returns the state, at most 1 MiB.
func Save(function func() []byte) { save = function }

// Restore sets the function that takes the state over in a new instance, from the version of the plugin that saved it.
func Restore(function func(saved []byte, fromVersion string) error) { restore = function }

func exportedSaveState() []uint8 { return save() }

func exportedRestoreState(saved []uint8, fromVersion string) witTypes.Result[witTypes.Unit, string] {
	if err := restore(saved, fromVersion); err != nil {
		return witTypes.Err[witTypes.Unit, string](err.Error())
	}
	return witTypes.Ok[witTypes.Unit, string](witTypes.Unit{})
}
