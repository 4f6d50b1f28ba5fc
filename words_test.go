package shuultuur

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"shuultuur/engine/configuration"
	"shuultuur/gateway"
	"shuultuur/lib/setting"
)

// A glossary is docs/words.md: the words that settings, metrics and log messages may use, and
// those that they must not use.
type glossary struct{ known, unwanted map[string]bool }

var (
	wordPattern = regexp.MustCompile(`[a-z0-9]+`)
	termPattern = regexp.MustCompile(`(?m)^- \*\*(.+?)\*\*: \S`)
)

func readGlossary(t *testing.T) glossary {
	t.Helper()
	text, err := os.ReadFile("docs/words.md")
	if err != nil {
		t.Fatal(err)
	}
	g := glossary{map[string]bool{}, map[string]bool{}}
	terms, plain, ok := strings.Cut(string(text), "\n## Ordinary words\n")
	plain, unwanted, ok2 := strings.Cut(plain, "\n## Not used\n")
	if !ok || !ok2 {
		t.Fatal("docs/words.md must have the parts Terms, Ordinary words, Names and Not used")
	}
	twice := map[string]bool{}
	for _, m := range termPattern.FindAllStringSubmatch(terms, -1) {
		if twice[m[1]] {
			t.Errorf("docs/words.md defines %q twice", m[1])
		}
		twice[m[1]] = true
		for _, w := range wordPattern.FindAllString(strings.ToLower(m[1]), -1) {
			g.known[w] = true
		}
	}
	for _, w := range wordPattern.FindAllString(strings.ToLower(plain), -1) {
		g.known[w] = true
	}
	for line := range strings.Lines(unwanted) {
		if cell := strings.Split(line, "|"); len(cell) == 4 {
			g.unwanted[strings.TrimSpace(cell[1])] = true
		}
	}
	if len(g.known) < 200 || len(g.unwanted) < 5 {
		t.Fatalf("docs/words.md: %d words and %d unwanted ones", len(g.known), len(g.unwanted))
	}
	return g
}

// has reports whether w, or the word that it is a form of, is in the glossary.
func (g glossary) has(w string) bool {
	if _, err := strconv.Atoi(w); err == nil || g.known[w] {
		return true
	}
	for _, end := range [][2]string{{"s", ""}, {"es", ""}, {"ies", "y"}, {"d", ""}, {"ed", ""}, {"ped", ""}, {"ing", ""}, {"ing", "e"}} {
		if root, ok := strings.CutSuffix(w, end[0]); ok && g.known[root+end[1]] {
			return true
		}
	}
	return false
}

func TestEveryTermIsInTheGlossary(t *testing.T) {
	g := readGlossary(t)
	n, reported := 0, map[string]bool{}
	look := func(where, term string) {
		for _, w := range wordPattern.FindAllString(strings.ToLower(term), -1) {
			n++
			if !g.has(w) && !reported[w] {
				reported[w] = true
				t.Errorf("%s: %q is not in docs/words.md", where, w)
			}
			if g.unwanted[w] {
				t.Errorf("%s: docs/words.md says not to use %q", where, w)
			}
		}
	}
	for _, k := range setting.Keys(&configuration.Settings{}) {
		look("setting "+k.Path, k.Path)
	}
	run(t, example(t, everything), func(r *gateway.Gateway) {
		for _, name := range metrics(t, r) {
			if name, ours := strings.CutPrefix(name, "shuultuur_"); ours {
				look("metric "+name, name)
			}
		}
	})
	messages := 0
	for _, m := range logMessages(t) {
		messages++
		for _, key := range m.keys {
			look(m.at, key)
		}
		for _, w := range wordPattern.FindAllString(strings.ToLower(m.text), -1) {
			if g.unwanted[w] {
				t.Errorf("%s: docs/words.md says not to use %q", m.at, w)
			}
		}
	}
	if n < 500 || messages < 50 {
		t.Errorf("found only %d words in %d messages", n, messages)
	}
	if g.has("quux") || g.has("xs") {
		t.Error("the glossary accepts a word that it does not have")
	}
}

type logMessage struct {
	at, text string
	keys     []string
}

// logMessages returns the messages that the program logs, with the names of the
// values.
func logMessages(t *testing.T) (all []logMessage) {
	t.Helper()
	files := token.NewFileSet()
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && slices.Contains([]string{"bench", "test", "testdata"}, d.Name()) {
			if err == nil {
				err = fs.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(files, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if m, ok := logCall(n); ok {
				m.at = files.Position(n.Pos()).String()
				all = append(all, m)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// logCall returns n as a call of a method of [log/slog.Logger] with a message.
func logCall(n ast.Node) (m logMessage, ok bool) {
	call, ok := n.(*ast.CallExpr)
	if !ok || len(call.Args) == 0 {
		return m, false
	}
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"Debug", "Info", "Warn", "Error"}, method.Sel.Name) {
		return m, false
	}
	if m.text, ok = literal(call.Args[0]); !ok {
		return m, false
	}
	for i := 1; i < len(call.Args); i += 2 {
		if key, ok := literal(call.Args[i]); ok {
			m.keys = append(m.keys, key)
		}
	}
	return m, true
}

func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}
