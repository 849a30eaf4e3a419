// Package lifecycle is the export `lifecycle`: a plugin that imports it, and exports it in wit/world.wit, reads its config and
// tests itself.
package lifecycle

import witTypes "project/pinion/contract/wit/types"

var (
	initialize func(string) error
	selfTest   func() error
)

// Init sets the function that gets the plugin's section of the config, a JSON object, on every instance.
func Init(function func(config string) error) { initialize = function }

// SelfTest sets the function that tests the plugin once per load.
func SelfTest(function func() error) { selfTest = function }

func exportedInit(config string) witTypes.Result[witTypes.Unit, string] {
	if initialize == nil {
		return resultOf(nil)
	}
	return resultOf(initialize(config))
}

func exportedSelfTest() witTypes.Result[witTypes.Unit, string] {
	if selfTest == nil {
		return resultOf(nil)
	}
	return resultOf(selfTest())
}

func resultOf(err error) witTypes.Result[witTypes.Unit, string] {
	if err != nil {
		return witTypes.Err[witTypes.Unit, string](err.Error())
	}
	return witTypes.Ok[witTypes.Unit, string](witTypes.Unit{})
}
