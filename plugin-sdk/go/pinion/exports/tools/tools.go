// Package tools is the export `tools`.
package tools

import (
	types "project/pinion/contract/pinion_plugin_types"
	witTypes "project/pinion/contract/wit/types"
	"project/pinion/registry"
)

// ListTools returns the registered tools.
func ListTools() witTypes.Result[[]types.ToolDefinition, string] {
	var definitions []types.ToolDefinition
	for _, tool := range registry.Tools {
		definitions = append(definitions, tool.Definition)
	}
	return witTypes.Ok[[]types.ToolDefinition, string](definitions)
}

// CallTool runs one of them.
func CallTool(context types.CallContext, name string, input string) witTypes.Result[types.ToolOutput, types.ToolError] {
	tool, isThere := registry.FindTool(name)
	if !isThere {
		return witTypes.Err[types.ToolOutput, types.ToolError](types.ToolError{Kind: types.ErrorKindFailed, Message: "no tool " + name})
	}
	output, err := tool.Run(context, input)
	if err != nil {
		return witTypes.Err[types.ToolOutput, types.ToolError](*err)
	}
	return witTypes.Ok[types.ToolOutput, types.ToolError](output)
}
