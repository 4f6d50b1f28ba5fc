package shuultuur

import (
	"encoding/json"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"shuultuur/engine/configuration"
	"shuultuur/lib/setting"
)

// pages returns the texts of the manual by file.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := fs.WalkDir(os.DirFS("."), ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Base(file) != "README.md" && !strings.HasPrefix(file, "docs/") || filepath.Ext(file) != ".md" {
			return err
		}
		text, err := os.ReadFile(file)
		all[file] = string(text)
		return err
	})
	if err != nil || len(all) < 10 {
		t.Fatalf("found only %d pages, %v", len(all), err)
	}
	return all
}

// TestTheArchitectureNamesExistingThings: the files and folders that it names exist.
func TestTheArchitectureNamesExistingThings(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile("`([a-z]+(?:/[a-z0-9-]+)+(?:\\.go)?)/?`").FindAllStringSubmatch(string(text), -1)
	if len(names) < 20 {
		t.Fatalf("ARCHITECTURE.md names only %d files and folders: something is wrong with the test", len(names))
	}
	for _, m := range names {
		if strings.HasPrefix(m[1], "data/") {
			continue // in the data folder of a gateway
		}
		if _, err := os.Stat(m[1]); err != nil {
			t.Errorf("ARCHITECTURE.md names %s: %v", m[1], err)
		}
	}
}

func TestEverySettingIsDocumentedOnce(t *testing.T) {
	tables := map[string][]setting.Row{}
	rows, err := setting.Manual(Manual)
	for file, text := range pages(t) {
		if _, err := fs.Stat(Manual, file); err != nil && strings.Contains(text, "\n| key | default | meaning |\n") {
			t.Errorf("%s has a table of settings that the program does not see; move it to the README.md of a folder", file)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		tables[r.Key] = append(tables[r.Key], r)
	}
	known := map[string]bool{}
	var missing []string
	for _, k := range setting.Keys(&configuration.Settings{}) {
		known[k.Path] = true
		switch rows := tables[k.Path]; {
		case len(rows) > 1:
			t.Errorf("%s:%d: %s is documented in %s:%d too", rows[1].File, rows[1].Line, k.Path, rows[0].File, rows[0].Line)
		case len(rows) == 0 && !k.Group:
			missing = append(missing, k.Path)
		}
	}
	if len(missing) > 0 {
		t.Errorf("no table has these %d settings: %q", len(missing), missing)
	}
	for key, rows := range tables {
		if !known[key] {
			t.Errorf("%s:%d documents %s, which is not a setting", rows[0].File, rows[0].Line, key)
		}
	}
}

// yamlBlocks returns the examples in a text.
func yamlBlocks(text string) (blocks []string) {
	for i, part := range strings.Split(text, "```yaml\n") {
		if block, _, ok := strings.Cut(part, "\n```"); i > 0 && ok {
			blocks = append(blocks, block+"\n")
		}
	}
	return blocks
}

// TestTheSchemaAcceptsTheExamples, and nothing with an unknown key.
func TestTheSchemaAcceptsTheExamples(t *testing.T) {
	text, err := configuration.Schema(Manual)
	if err != nil {
		t.Fatal(err)
	}
	var schema map[string]any
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	n := 0
	for file, text := range pages(t) {
		for _, block := range yamlBlocks(text) {
			var v map[string]any
			if err := yaml.Load([]byte(block), &v); err != nil {
				t.Errorf("%s: parsing an example: %v", file, err)
				continue
			}
			n++
			if wrong := violation(schema, v, ""); wrong != "" {
				t.Errorf("%s: the schema refuses %s in\n%s", file, wrong, block)
			}
			v["no-such-key"] = 1
			if violation(schema, v, "") == "" {
				t.Errorf("%s: the schema accepts an unknown key", file)
			}
		}
	}
	if n < 10 {
		t.Errorf("found only %d examples", n)
	}
	for _, wrong := range []string{"{events: {keep: 1x}}", "{proxy: {connections: many}}", "{policies: {name: a}}", "{policies: [{name: a, decrypt: maybe}]}", "{dns: {cache: {siez: 1}}}", "{listen: {proxy: {a: b}}}"} {
		var v any
		if err := yaml.Load([]byte(wrong), &v); err != nil {
			t.Fatal(err)
		}
		if violation(schema, v, "") == "" {
			t.Errorf("the schema accepts %s", wrong)
		}
	}
}

// violation returns where v violates a schema, or "". It knows the keywords that setting.Schema
// uses.
func violation(schema map[string]any, v any, at string) string {
	if forms, ok := schema["anyOf"].([]any); ok {
		first := ""
		for _, s := range forms {
			wrong := violation(s.(map[string]any), v, at)
			if wrong == "" {
				return ""
			}
			if len(wrong) > len(first) {
				first = wrong
			}
		}
		return first
	}
	if want, ok := schema["const"]; ok && v != want {
		return at + ": it is not the word expected"
	}
	if words, ok := schema["enum"].([]any); ok && !slices.Contains(words, v) {
		return at + ": it is none of the words expected"
	}
	kind, number := kindOf(v)
	if types := schema["type"]; types != nil && v != nil {
		list, many := types.([]any)
		if !many {
			list = []any{types}
		}
		if !slices.Contains(list, any(kind)) && !(kind == "integer" && slices.Contains(list, any("number"))) {
			return at + ": it is " + kind
		}
	}
	if p, ok := schema["pattern"].(string); ok && kind == "string" && !regexp.MustCompile(p).MatchString(v.(string)) {
		return at + ": it has another form"
	}
	if low, ok := schema["minimum"].(float64); ok && number < low {
		return at + ": it is too small"
	}
	if high, ok := schema["maximum"].(float64); ok && number > high {
		return at + ": it is too large"
	}
	switch v := v.(type) {
	case []any:
		if items, ok := schema["items"].(map[string]any); ok {
			for _, x := range v {
				if wrong := violation(items, x, at+"[]"); wrong != "" {
					return wrong
				}
			}
		}
	case map[string]any:
		keys, _ := schema["properties"].(map[string]any)
		for name, x := range v {
			of, ok := keys[name].(map[string]any)
			if !ok {
				if of, ok = schema["additionalProperties"].(map[string]any); !ok {
					return at + "." + name + ": there is no such key"
				}
			}
			if wrong := violation(of, x, at+"."+name); wrong != "" {
				return wrong
			}
		}
	}
	return ""
}

// kindOf returns the type of a value in the words of JSON schema, and its number.
func kindOf(v any) (kind string, number float64) {
	switch v := v.(type) {
	case string:
		return "string", math.NaN()
	case bool:
		return "boolean", math.NaN()
	case int:
		return "integer", float64(v)
	case float64:
		return "number", v
	case []any:
		return "array", math.NaN()
	case map[string]any:
		return "object", math.NaN()
	}
	return "null", math.NaN()
}
