package shuultuur

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	library "shuultuur/lib/metric"
	"shuultuur/lib/metric/metrictest"
)

// declared returns the metrics that the program declares, with their labels, or nil where these
// are unknown. It looks for calls whose first argument is the name, the second a text, and the
// last the labels. texts are all texts in the code.
func declared(t *testing.T) (metrics map[string][]string, texts map[string]bool) {
	t.Helper()
	metrics, texts = map[string][]string{}, map[string]bool{}
	name := regexp.MustCompile(`^(shuultuur|coredns|go|process)_[a-z0-9_]+$`)
	err := fs.WalkDir(os.DirFS("."), ".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			return err
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok {
				if s, ok := literal(e); ok {
					texts[s] = true
				}
			}
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) < 2 {
				return true
			}
			first, ok := literal(call.Args[0])
			if !ok || !name.MatchString(first) {
				return true
			}
			if call.Ellipsis.IsValid() {
				metrics[first] = nil
				return true
			}
			labels := append([]string{}, metrics[first]...)
			for _, a := range call.Args[2:] {
				if l, ok := literal(a); ok {
					labels = append(labels, l)
				}
			}
			metrics[first] = labels
			return true
		})
		return nil
	})
	if err != nil || len(metrics) < 80 {
		t.Fatalf("found only %d metrics: %v", len(metrics), err)
	}
	return metrics, texts
}

// composed reports whether a metric is documented although its whole name is not in the code,
// because the code joins it from a beginning, which several parts have, and an end.
func composed(t *testing.T, name string, texts map[string]bool) bool {
	documented := false
	for _, page := range pages(t) {
		documented = documented || strings.Contains(page, "`"+name+"`") || strings.Contains(page, "`"+name+"{")
	}
	for i := range name {
		if name[i] == '_' && len(name)-i > 2 && (texts[name[i:]] || texts[name[i+1:]]) {
			return documented
		}
	}
	return documented && texts[name]
}

// A watched is an expression that alerts or the dashboard evaluate, and its
// description.
type watched struct{ where, expr, said string }

// watchedExpressions returns the expressions of the alert rules and of the dashboard.
func watchedExpressions(t *testing.T) (all []watched) {
	t.Helper()
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	text, err := os.ReadFile("dist/monitoring/alerts.yml")
	if err == nil {
		err = yaml.Unmarshal(text, &rules)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			all = append(all, watched{r.Alert, r.Expr, r.Annotations["summary"] + r.Annotations["description"]})
		}
	}
	var board any
	text, err = os.ReadFile("dist/monitoring/grafana.json")
	if err == nil {
		err = json.Unmarshal(text, &board)
	}
	if err != nil {
		t.Fatal(err)
	}
	var walk func(v any, title string)
	walk = func(v any, title string) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				walk(x, title)
			}
		case map[string]any:
			if s, ok := v["title"].(string); ok {
				title = s
			}
			if e, ok := v["expr"].(string); ok {
				legend, _ := v["legendFormat"].(string)
				all = append(all, watched{"dashboard, " + title, e, legend})
			}
			for _, x := range v {
				walk(x, title)
			}
		}
	}
	walk(board, "")
	if len(all) < 15 {
		t.Fatalf("found only %d expressions", len(all))
	}
	return all
}

// TestMonitoringUsesExistingMetrics: the alert rules and the dashboard name only metrics and
// labels that the program has.
func TestMonitoringUsesExistingMetrics(t *testing.T) {
	var (
		metric   = regexp.MustCompile(`\b((?:shuultuur|coredns|go|process)_[a-z0-9_]+)(?:\{([^}]*)\})?`)
		matcher  = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)`)
		grouped  = regexp.MustCompile(`\b(?:by|without|on|ignoring)\s*\(([^)]*)\)`)
		labelled = regexp.MustCompile(`\{\{\s*(?:\$labels\.)?([a-z_]+)\s*\}\}`)
	)
	known, texts := declared(t)
	process, err := metrictest.Read(library.Process()) // named by Prometheus's library, not here
	if err != nil {
		t.Fatal(err)
	}
	for series := range process {
		if name, _, labelled := strings.Cut(series, "{"); !labelled {
			known[name] = []string{}
		} else if histogram, ok := strings.CutSuffix(name, "_bucket"); ok {
			known[histogram] = []string{}
		}
	}
	usual := []string{"instance", "job", "le"}
	for _, w := range watchedExpressions(t) {
		have, all := slices.Clone(usual), true // all: no other labels are possible
		for _, m := range metric.FindAllStringSubmatch(w.expr, -1) {
			name := m[1]
			if _, ok := known[name]; !ok {
				for _, end := range []string{"_bucket", "_sum", "_count"} {
					name = strings.TrimSuffix(name, end)
				}
			}
			labels, ok := known[name]
			if !ok && !composed(t, name, texts) {
				t.Errorf("%s asks for the metric %s, which the program does not have", w.where, m[1])
			}
			have, all = append(have, labels...), all && labels != nil
			for _, l := range matcher.FindAllStringSubmatch(m[2], -1) {
				if labels != nil && !slices.Contains(labels, l[1]) && !slices.Contains(usual, l[1]) {
					t.Errorf("%s asks for the label %s of %s, which has %q", w.where, l[1], name, labels)
				}
			}
		}
		var used []string
		for _, g := range grouped.FindAllStringSubmatch(w.expr, -1) {
			used = append(used, strings.FieldsFunc(g[1], func(r rune) bool { return r == ',' || r == ' ' })...)
		}
		for _, l := range labelled.FindAllStringSubmatch(w.said, -1) {
			used = append(used, l[1])
		}
		for _, l := range used {
			if all && l != "value" && !slices.Contains(have, l) {
				t.Errorf("%s uses the label %s; its metrics have %q", w.where, l, have)
			}
		}
	}
}

// TestEveryAlertIsTried: dist/monitoring has a test in which each alert fires.
func TestEveryAlertIsTried(t *testing.T) {
	var tests struct {
		Tests []struct {
			Rules []struct {
				Name string `yaml:"alertname"`
				Exp  []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	text, err := os.ReadFile("dist/monitoring/alerts_test.yml")
	if err == nil {
		err = yaml.Unmarshal(text, &tests)
	}
	if err != nil {
		t.Fatal(err)
	}
	fires := map[string]bool{}
	for _, x := range tests.Tests {
		for _, r := range x.Rules {
			fires[r.Name] = fires[r.Name] || len(r.Exp) > 0
		}
	}
	for _, w := range watchedExpressions(t) {
		if !strings.HasPrefix(w.where, "dashboard") && !fires[w.where] {
			t.Errorf("no test in dist/monitoring/alerts_test.yml lets %s fire", w.where)
		}
	}
}
