// Package pinion registers the tools and commands of a plugin. The packages below exports add hooks and the other exports, and
// those below contract are the whole contract, generated from its WIT.
package pinion

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"reflect"
	"strings"

	"project/pinion/contract/pinion_plugin_cancellation"
	commands "project/pinion/contract/pinion_plugin_commands"
	"project/pinion/contract/pinion_plugin_log"
	"project/pinion/contract/pinion_plugin_progress"
	types "project/pinion/contract/pinion_plugin_types"
	"project/pinion/contract/pinion_plugin_workspace"
	witTypes "project/pinion/contract/wit/types"
	_ "project/pinion/contract/wit_exports"
	"project/pinion/registry"
)

// Effects that a tool declares; a call gets no more than these, whatever the user granted.
const (
	Reads       = types.EffectsReads
	Writes      = types.EffectsWrites
	Executes    = types.EffectsExecutes
	Network     = types.EffectsNetwork
	Destructive = types.EffectsDestructive
	Delegates   = types.EffectsDelegates
)

// Kinds of errors.
const (
	InvalidInput = types.ErrorKindInvalidInput
	NotFound     = types.ErrorKindNotFound
	Denied       = types.ErrorKindDenied
	Cancelled    = types.ErrorKindCancelled
	Failed       = types.ErrorKindFailed
)

// Error is an error of a tool with a kind. Any other error becomes one of the kind that it wraps, or Failed.
type Error struct {
	Kind      types.ErrorKind
	Message   string
	Retryable bool
	// Output is for the model in place of the message, with details for the log and the UI.
	Output *Output
}

func (e *Error) Error() string { return e.Message }

// relayed is the error of another tool.
type relayed struct{ types.ToolError }

func (e *relayed) Error() string { return e.Message }

// Relay returns the error of another tool as an error of this one, with its content and details.
func Relay(err types.ToolError) error { return &relayed{err} }

// Output is a result with more than a text.
type Output struct {
	Text string
	// Details are JSON for the log and the UI, never for the model.
	Details any
	// Markdown shows the text as Markdown to people.
	Markdown bool
	// Images come after the text.
	Images []Image
}

// Image is an image for the model: its media type and the encoded file.
type Image = types.Image

// Action is an action that the host performs for a command. The package contract/pinion_plugin_commands makes all of them.
type Action = commands.Action

// Completion replaces the argument of a command that has been typed.
type Completion struct{ Value, Description string }

// Print shows Markdown to the user.
func Print(text string) []Action { return []Action{commands.MakeActionPrint(text)} }

// Submit sends a message to the model as the user's.
func Submit(text string) []Action { return []Action{commands.MakeActionSubmit(text)} }

// Call is one call of a tool or command.
type Call struct {
	ID, Session, Workspace string
	// Extra is a JSON object with further facts, or empty.
	Extra  string
	denied error
}

// Progress shows a short line to the user.
func (*Call) Progress(message string) { pinion_plugin_progress.Report(message) }

// Log writes a line to the host's log.
func (*Call) Log(message string) { pinion_plugin_log.Log(pinion_plugin_log.LevelInfo, message) }

// Cancelled returns whether the call has been cancelled.
func (*Call) Cancelled() bool { return pinion_plugin_cancellation.Cancelled() }

// Path returns the absolute path for a path that the model or the user wrote, for package os. For a path outside the
// granted directories it returns one that does not exist, and the call fails with the reason.
func (call *Call) Path(name string) string {
	found := pinion_plugin_workspace.Resolve(name)
	if found.IsOk() {
		return found.Ok()
	}
	call.denied = fromWorkspace(found.Err())
	return "/nonexistent"
}

func fromWorkspace(err pinion_plugin_workspace.WorkspaceError) error {
	switch err.Tag() {
	case pinion_plugin_workspace.WorkspaceErrorDenied:
		return &Error{Kind: Denied, Message: err.Denied()}
	case pinion_plugin_workspace.WorkspaceErrorNotFound:
		return &Error{Kind: NotFound, Message: err.NotFound()}
	case pinion_plugin_workspace.WorkspaceErrorInvalidPattern:
		return &Error{Kind: InvalidInput, Message: err.InvalidPattern()}
	case pinion_plugin_workspace.WorkspaceErrorCancelled:
		return &Error{Kind: Cancelled, Message: "cancelled"}
	default:
		return &Error{Kind: Failed, Message: err.Io()}
	}
}

// CallOf returns the call of a context, in the workspace if the effects reach files. The packages below exports use it.
func CallOf(context types.CallContext, effects types.Effects) *Call {
	if effects&(Reads|Writes) != 0 {
		// Relative paths start at the workspace. Without a grant, there is none to enter.
		_ = os.Chdir(context.Workspace)
	}
	return &Call{ID: context.CallId, Session: context.SessionId, Workspace: context.Workspace, Extra: context.Extra.SomeOr("")}
}

// ToolOption changes the definition of a tool.
type ToolOption func(*types.ToolDefinition)

// Sequential lets calls of a tool run alone: after all calls before them, before all calls after them.
func Sequential(definition *types.ToolDefinition) { definition.Execution = types.ExecutionSequential }

// Tool registers a tool, in place of one with its name. Its input is a struct; tags `json`, `description` and `enum` describe the members. Members with
// `json:"…,omitempty"` may be left out. The output is a string or an Output.
func Tool[In any, Out string | Output](name, description string, effects types.Effects, run func(*Call, In) (Out, error), options ...ToolOption) {
	schema, _ := json.Marshal(schemaOf(reflect.TypeFor[In]()))
	definition := types.ToolDefinition{
		Name: name, Label: strings.ReplaceAll(name, "_", " "), Description: description, InputSchema: string(schema),
		Effects: effects, Execution: types.ExecutionParallel, Extra: none(),
	}
	for _, option := range options {
		option(&definition)
	}
	registry.AddTool(registry.Tool{Definition: definition, Run: func(context types.CallContext, text string) (types.ToolOutput, *types.ToolError) {
		call := CallOf(context, effects)
		var input In
		if err := json.Unmarshal([]byte(text), &input); err != nil {
			return types.ToolOutput{}, toolError(&Error{Kind: InvalidInput, Message: err.Error()})
		}
		output, err := run(call, input)
		if call.denied != nil && err != nil {
			err = call.denied
		}
		if err != nil {
			return types.ToolOutput{}, toolError(err)
		}
		return toolOutput(any(output)), nil
	}})
}

// CommandOption changes a command.
type CommandOption func(*registry.Command)

// Completing sets the function that completes the argument of a command; it must return within 100 ms.
func Completing(complete func(typed string) []Completion) CommandOption {
	return func(command *registry.Command) {
		command.Complete = func(typed string) []commands.Completion {
			var completions []commands.Completion
			for _, one := range complete(typed) {
				completion := commands.Completion{Value: one.Value, Description: none()}
				if one.Description != "" {
					completion.Description = witTypes.Some(one.Description)
				}
				completions = append(completions, completion)
			}
			return completions
		}
	}
}

// Command registers a slash command, in place of one with its name. It gets the text after its name.
func Command(name, description, hint string, run func(*Call, string) ([]Action, error), options ...CommandOption) {
	definition := types.CommandDefinition{Name: name, Description: description, ArgumentHint: none(), Extra: none()}
	if hint != "" {
		definition.ArgumentHint = witTypes.Some(hint)
	}
	command := registry.Command{Definition: definition, Run: func(context types.CallContext, input string) ([]Action, error) {
		return run(CallOf(context, Reads), input)
	}}
	for _, option := range options {
		option(&command)
	}
	registry.AddCommand(command)
}

// Remove removes the tool and the command with a name, for plugins whose tools and commands change.
func Remove(name string) { registry.Remove(name) }

func none() witTypes.Option[string] { return witTypes.None[string]() }

func toolOutput(value any) types.ToolOutput {
	output, isFull := value.(Output)
	if !isFull {
		output = Output{Text: value.(string)}
	}
	result := types.ToolOutput{
		Content: []types.Content{types.MakeContentText(output.Text)},
		Details: none(), Display: types.MakeDisplayPlain(), Extra: none(),
	}
	for _, image := range output.Images {
		result.Content = append(result.Content, types.MakeContentImage(image))
	}
	if output.Markdown {
		result.Display = types.MakeDisplayMarkdown()
	}
	if details, err := json.Marshal(output.Details); err == nil && output.Details != nil {
		result.Details = witTypes.Some(string(details))
	}
	return result
}

func toolError(err error) *types.ToolError {
	result := &types.ToolError{Kind: Failed, Message: err.Error(), Details: none(), Display: types.MakeDisplayPlain(), Extra: none()}
	var own *Error
	var other *relayed
	switch {
	case errors.As(err, &other):
		return &other.ToolError
	case errors.As(err, &own):
		result.Kind, result.Retryable = own.Kind, own.Retryable
		if own.Output != nil {
			shown := toolOutput(*own.Output)
			result.Content, result.Details, result.Display = shown.Content, shown.Details, shown.Display
		}
	case errors.Is(err, fs.ErrNotExist):
		result.Kind = NotFound
	case errors.Is(err, fs.ErrPermission):
		result.Kind = Denied
	}
	return result
}

func schemaOf(of reflect.Type) map[string]any {
	switch of.Kind() {
	case reflect.Pointer:
		return schemaOf(of.Elem())
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Slice, reflect.Array:
		return map[string]any{"type": "array", "items": schemaOf(of.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": schemaOf(of.Elem())}
	case reflect.Struct:
		return structSchema(of)
	case reflect.Interface:
		return map[string]any{}
	default:
		return map[string]any{"type": "integer"}
	}
}

func structSchema(of reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	for i := range of.NumField() {
		field := of.Field(i)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if !field.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = field.Name
		}
		schema := schemaOf(field.Type)
		if description := field.Tag.Get("description"); description != "" {
			schema["description"] = description
		}
		if values := field.Tag.Get("enum"); values != "" {
			schema["enum"] = strings.Split(values, ",")
		}
		properties[name] = schema
		if !strings.Contains(options, "omit") {
			required = append(required, name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
}
