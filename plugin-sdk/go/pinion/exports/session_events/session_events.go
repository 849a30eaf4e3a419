// Package session_events is the export `session-events`, for plugins of lifetime `session`: a plugin that imports it, and exports
// it in wit/world.wit, has the hook.
package session_events

var handle func([]string)

// Handle sets the function that gets events, which are JSON objects, oldest first.
func Handle(function func(events []string)) { handle = function }

func exportedOnEvents(events []string) { handle(events) }
