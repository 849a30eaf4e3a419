// Package offers is the export `offers`: with it, and the export in wit/world.wit, the host asks for the tools and commands that
// are registered at the moment, again after pinion_plugin_offers_host.Changed.
package offers

import (
	wit "project/pinion/contract/pinion_plugin_offers"
	witTypes "project/pinion/contract/wit/types"
	"project/pinion/registry"
)

var instructions func() string

// Instructions sets the function that returns sentences for the system prompt.
func Instructions(function func() string) { instructions = function }

// Refresh sets the function that registers and removes tools and commands before they are listed, and before an instance calls
// one that it does not know: calls run on fresh instances, unless the lifetime is `session`.
func Refresh(function func() error) { registry.Refresh = function }

func exportedList() witTypes.Result[wit.Offer, string] {
	if err := registry.Refreshed(); err != nil {
		return witTypes.Err[wit.Offer, string](err.Error())
	}
	offer := wit.Offer{Instructions: witTypes.None[string]()}
	for _, tool := range registry.Tools {
		offer.Tools = append(offer.Tools, tool.Definition)
	}
	for _, command := range registry.Commands {
		offer.Commands = append(offer.Commands, command.Definition)
	}
	if instructions != nil {
		offer.Instructions = witTypes.Some(instructions())
	}
	return witTypes.Ok[wit.Offer, string](offer)
}
