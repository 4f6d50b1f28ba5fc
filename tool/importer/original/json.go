package original

import (
	"encoding/json"

	"shuultuur/tool/importer/input"
)

// ReadJSON reads a JSON file, in which the answer may be inside an envelope.
func ReadJSON(file, usual, envelope string) (v map[string]any, err error) {
	file = input.In(file, usual)
	data, err := input.Whole(file)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &v); err != nil {
		return nil, err
	}
	if inner, ok := v[envelope].(map[string]any); ok {
		return inner, nil
	}
	return v, nil
}

// Strings returns the values in a list of texts.
func Strings(v map[string]any, key string) (all []string) {
	list, _ := v[key].([]any)
	for _, x := range list {
		if s, ok := x.(string); ok {
			all = append(all, s)
		}
	}
	return all
}
