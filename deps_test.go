package shuultuur

import (
	"cmp"
	"go/parser"
	"go/token"
	"io/fs"
	slashpath "path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"shuultuur/lib/setting"
)

// floors is the floor table of ARCHITECTURE.md. A package may import folders on
// lower floors and folders inside its own, and no other package of the module.
var floors = map[string]int{
	"cmd/shuultuur": 9,
	"test":          9,
	"bench":         9,
	"dist":          9,
	"gateway":       8,
	"engine":        7,
	"tool":          6,
	"fleet":         5,
	"admin":         5,
	"whatif":        5,
	"icap":          5,
	"helper":        5,
	"portal":        5,
	"nameserver":    5,
	"proxy":         4,
	"cache":         4,
	"resolver":      4,
	"zone":          4,
	"check":         4,
	"policy":        4,
	"identity":      4,
	"event":         4,
	"vote":          4,
	"intercept":     3,
	"list":          3,
	"state":         3,
	"filter":        2,
	"content":       1,
	"text":          1,
	"lib":           0,
}

// apart has the rooms whose folders may not import each other, except for the named folder, which
// has the table of the others. What all of them implement is in the folder of shared.
var (
	apart  = map[string]string{"check": "check", "event": "event/record"}
	shared = []string{"check/build"}
)

// runsTools has the folders that may use tools, which people run beside the filter. That lib
// imports only lib follows from its floor.
var runsTools = []string{"cmd/shuultuur", "test", "bench"}

// modules has the third-party modules and the folders that may use them. The longest row that
// an import begins with counts. Tests and benchmarks may use them anywhere, as independent
// readers.
var modules = map[string][]string{
	"aead.dev/minisign": {"fleet", "gateway"}, // signatures of bundles; the gateway's tests make keys
	"filippo.io/age":    {"admin", "fleet"},   // backups and bundles
	"github.com/DataDog/datadog-agent/pkg/template": {},
	"github.com/HdrHistogram/hdrhistogram-go":       {"tool"},
	"github.com/andybalholm/brotli":                 {"content", "policy", "tool"},
	"github.com/blevesearch/snowballstem":           {"lib"},
	"github.com/cespare/xxhash/v2":                  {"list"},
	"github.com/coreos/go-oidc/v3/oidc":             {"identity"},
	"github.com/dlclark/regexp2/v2":                 {"lib", "list"},
	"github.com/gaissmai/bart":                      {"check", "identity", "nameserver", "policy"},
	"github.com/go-ldap/ldap/v3":                    {"identity"},
	"github.com/google/go-cmp/cmp":                  {"event"}, // its conformance suite
	"github.com/google/pprof/profile":               {"admin", "tool"},
	"github.com/jackc/pgx/v5":                       {"lib"},
	"github.com/jcmturner/gokrb5/v8":                {"identity"},
	"github.com/klauspost/compress":                 {"content", "list", "proxy", "text", "tool", "whatif"},
	"github.com/dnstap/golang-dnstap":               {"nameserver"}, // messages of dnstap
	"github.com/farsightsec/golang-framestream":     {"nameserver"}, // their transport
	"google.golang.org/protobuf":                    {"nameserver"}, // their encoding
	"github.com/miekg/dns":                          {"resolver", "zone"},
	"github.com/nats-io/nats.go":                    {"vote"},
	"github.com/nwaples/rardecode/v2":               {"content"},         // members of RAR archives: three generations of compression
	"github.com/ulikunitz/xz":                       {"content", "tool"}, // LZMA, in 7z archives and in captured bodies
	"github.com/oschwald/maxminddb-golang/v2":       {"zone"},
	"github.com/prometheus/client_golang":           {"lib"},
	"github.com/prometheus/common/expfmt":           {"lib"},
	"github.com/quic-go/quic-go":                    {"nameserver", "resolver"},
	"github.com/twmb/franz-go":                      {"event"},
	"github.com/wneessen/go-mail":                   {"admin", "lib"},
	"github.com/yuin/gopher-lua":                    {"lib"},
	"github.com/zeebo/xxh3":                         {"cache", "content", "intercept", "lib", "list", "resolver", "tool", "vote", "zone"},
	"go.yaml.in/yaml/v4":                            {"check", "lib", "tool", "zone"},
	"golang.org/x/crypto":                           {"admin", "cmd/shuultuur", "identity", "intercept", "lib", "list"},
	"golang.org/x/exp/trace":                        {"tool"},
	"golang.org/x/image":                            {"content", "lib"},
	"golang.org/x/image/font/gofont":                {"admin"}, // reports as PDF
	"golang.org/x/net":                              {"cache", "check", "filter", "lib", "list", "nameserver", "proxy", "tool", "vote", "zone"},
	"golang.org/x/oauth2":                           {"identity"},
	"golang.org/x/sys":                              {"cmd/shuultuur", "content", "event", "lib", "nameserver", "proxy", "resolver", "tool"},
	"golang.org/x/term":                             {"cmd/shuultuur"},
	"golang.org/x/text":                             {"check", "content", "lib", "list", "text"},
	"layeh.com/radius":                              {"identity"},
	"modernc.org/libc":                              {"event"},
	"modernc.org/sqlite":                            {"event", "tool", "vote"},
	"rsc.io/qr":                                     {"admin"},
	"software.sslmate.com/src/go-pkcs12":            {"intercept"},
}

// module is the common prefix of the paths of our packages.
var module = strings.TrimSuffix(reflect.TypeFor[setting.Row]().PkgPath(), "lib/setting")

// allowed returns the longest row of modules that an import begins with. The standard library
// needs none.
func allowed(path string) (only []string, listed bool) {
	for row := path; row != "."; row = slashpath.Dir(row) {
		if only, ok := modules[row]; ok {
			return only, true
		}
	}
	first, _, _ := strings.Cut(path, "/")
	return nil, strings.Contains(first, ".")
}

// room returns the folder of the floor table that contains dir, or "".
func room(dir string) string {
	for dir != "." && dir != "" {
		if _, ok := floors[dir]; ok {
			return dir
		}
		dir = filepath.ToSlash(filepath.Dir(dir))
	}
	return ""
}

// within returns the folder of a room that contains dir.
func within(dir, room string) string {
	part, _, _ := strings.Cut(strings.TrimPrefix(dir, room+"/"), "/")
	return part
}

// inside reports whether a folder is another one or inside it.
func inside(dir, in string) bool { return dir == in || strings.HasPrefix(dir, in+"/") }

func TestImportsPointDown(t *testing.T) {
	files := 0
	documented := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || filepath.Dir(path) == "." {
			return nil
		}
		files++
		dir := filepath.ToSlash(filepath.Dir(path))
		mine := room(dir)
		if mine == "" {
			t.Errorf("%s: folder %s has no floor; add it to the table here and in ARCHITECTURE.md", path, dir)
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly|parser.ParseComments)
		if err != nil {
			return err
		}
		if f.Doc != nil {
			documented[dir] = true
		} else if _, seen := documented[dir]; !seen {
			documented[dir] = false
		}
		for _, im := range f.Imports {
			to, _ := strconv.Unquote(im.Path.Value)
			if only, ok := allowed(to); ok && mine != "test" && mine != "bench" && !strings.HasSuffix(path, "_test.go") && !slices.Contains(only, mine) {
				t.Errorf("%s imports %s, which only %s may use; the table of modules says why", path, to, cmp.Or(strings.Join(only, " and "), "tests"))
			}
			to, ours := strings.CutPrefix(to, module)
			if !ours || inside(to, dir) || inside(dir, to) {
				continue
			}
			theirs := room(to)
			if strings.HasSuffix(path, "_test.go") && theirs != "" && !slices.Contains([]string{"configuration", "engine", "gateway"}, theirs) {
				continue // conformance suites lie beside what they test, helpers under test
			}
			if theirs == "tool" && mine != "tool" && !slices.Contains(runsTools, mine) {
				t.Errorf("%s imports %s: the filter does not use its tools; only %s do", path, to, strings.Join(runsTools, ", "))
			}
			if theirs == mine && (apart[mine] == "" || apart[mine] == dir || slices.Contains(shared, to) || within(to, mine) == within(dir, mine)) {
				continue // parts of one room
			}
			if theirs == "" || floors[theirs] >= floors[mine] && mine != "cmd/shuultuur" && mine != "test" && mine != "bench" {
				t.Errorf("%s (floor %d) imports %s (floor %d): imports point down", path, floors[mine], to, floors[theirs])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 10 {
		t.Fatalf("the walk found only %d files", files)
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("package in %s has no package comment", dir)
		}
	}
}
