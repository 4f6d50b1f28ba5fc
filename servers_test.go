package shuultuur

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// connects has the calls that open connections, by package.
var connects = map[string][]string{
	"net":                            {"Dial", "DialTimeout", "DialUDP", "DialTCP", "DialUnix", "Dialer"},
	"net/http":                       {"Client", "Transport", "DefaultClient", "DefaultTransport", "Get", "Post"},
	"net/smtp":                       {"Dial", "NewClient", "SendMail"},
	"crypto/tls":                     {"Dial", "Dialer"},
	"github.com/go-ldap/ldap/v3":     {"DialURL"},
	"github.com/jackc/pgx/v5/stdlib": {"OpenDB"},
	"github.com/nats-io/nats.go":     {"Connect"},
	"layeh.com/radius":               {"Client", "Exchange"},
	module + "lib/postgres":          {"Open"},
	module + "lib/redis":             {"Connect"},
}

// killed names for each package that connects to servers the test in which these are killed and
// return. The test is in the same folder, or in the named one.
var killed = map[string][]string{
	"admin/alert":        {"TestAlertsReachThoseWhomTheSettingsName"},
	"cache/peer":         {"test.TestGatewaysShareObjectsAndSurviveALoss"},
	"lib/certificate":    {"TestAnAuthorityIsKilledAndReturns", "TestAnAuthorityThatMisbehaves"},
	"check/icap":         {"TestKilledUnderLoad", "TestAHungServerCostsItsLimit"},
	"check/virus":        {"TestClamdIsKilledUnderLoad", "TestAHangingScannerDelaysFewBodies"},
	"engine/probe":       {"TestAScannerIsKilledAndReturns"},
	"event/clickhouse":   {"TestTheServerIsKilledAndReturns"},
	"event/kafka":        {"TestEventsGoOnWhenTheBrokersAreBack", "test.TestReceiversOfEventsAreKilledUnderLoad"},
	"event/otlp":         {"test.TestReceiversOfEventsAreKilledUnderLoad"},
	"event/postgres":     {"test.TestReceiversOfEventsAreKilledUnderLoad"},
	"event/syslog":       {"test.TestReceiversOfEventsAreKilledUnderLoad"},
	"nameserver/tap":     {"nameserver.TestTheReceiverOfDnstapIsKilledAndReturns"},
	"fleet/bundle":       {"TestAServerOfBundlesIsKilledAndReturns"},
	"helper":             {"test.TestHelpersWorkFromSettingsAloneAndOutliveTheGateway"},
	"identity/directory": {"TestServersOfPasswordsAreKilledUnderLoad", "identity.TestKnownUsersDoNotNoticeAnAbsentDirectory"},
	"identity/ocsp":      {"TestAResponderOfOpenSSLIsKilledAndReturns"},
	"identity/oidc":      {"TestAProviderThatIsAwayIsNamedAndReturns", "test.TestTheOpenIDProviderIsKilledUnderLoad"},
	"intercept":          {"TestFetchingEndsInTime"}, // servers of issuers, wherever certificates name them
	"lib/postgres":       {"TestServerReturns"},
	"lib/handover":       {"TestASupervisorMayGoAndReturn"},
	"lib/smtp":           {"admin/alert.TestAlertsReachThoseWhomTheSettingsName", "vote/booth.TestAMailServerIsKilledAndReturns"},
	"list/source":        {"TestAFailureThatPassesIsTriedAgain"},
	"proxy/upstream":     {"proxy.TestDeadIdleConnectionIsReplaced", "proxy.TestUpstreamFailures"},
	"lib/objectstore":    {"test.TestReceiversOfEventsAreKilledUnderLoad"},
	"lib/redis":          {"TestConnectsAgainAfterARestart", "TestAServerThatHangsIsNotWaitedForLong"},
	"resolver/forward":   {"TestDownUpstreamIsProbedAndComesBack", "TestLostConnectionsAreMadeAgain", "TestEveryQuestionIsAnsweredWhileOneIsWell"},
	"state":              {"test.TestNobodyNoticesThatRedisIsLost"},
	"vote":               {"vote/booth.TestCarriersAreKilledUnderLoad"},
	"vote/booth":         {"TestThreeNodesAndOneStore", "TestAMailServerIsKilledAndReturns"},
	"vote/store":         {"vote/booth.TestPostgresIsKilledUnderLoad"},
	"zone/redins":        {"lib/redis.TestConnectsAgainAfterARestart", "TestAZoneThatCannotBeReadIsServfail"},
	"zone/redins/health": {"TestStatusCountsUpAndDown"}, // their purpose is to ask whether servers are away
	"zone/transfer":      {"TestObjectsOnDiskExpire"},
}

// ownTools has programs that people start. They ask a gateway, or measure, and end.
var ownTools = []string{"admin/remote", "bench", "cmd", "dist", "gateway", "replay", "test", "tool"}

// TestEveryServerWeSpeakToIsKilledInATest finds the packages that open
// connections.
func TestEveryServerWeSpeakToIsKilledInATest(t *testing.T) {
	found := map[string]bool{}
	eachSource(t, func(path string, _ *token.FileSet, f *ast.File) {
		dir := filepath.ToSlash(filepath.Dir(path))
		names := map[string][]string{} // the code that connects, by the name of its package here
		for _, i := range f.Imports {
			at, _ := strconv.Unquote(i.Path.Value)
			if what, ok := connects[at]; ok {
				name := strings.TrimSuffix(filepath.Base(strings.TrimSuffix(at, "/v3")), ".go")
				if i.Name != nil {
					name = i.Name.Name
				}
				names[name] = what
			}
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if _, ok := n.(*ast.StarExpr); ok { // a type, for connections that others have made
				return false
			}
			if s, ok := n.(*ast.SelectorExpr); ok {
				if of, ok := s.X.(*ast.Ident); ok && slices.Contains(names[of.Name], s.Sel.Name) {
					found[dir] = true
				}
			}
			return true
		})
	})
	for _, dir := range slices.Sorted(maps.Keys(found)) {
		top, _, _ := strings.Cut(dir, "/")
		if killed[dir] == nil && !slices.Contains(ownTools, dir) && (top == "admin" || !slices.Contains(ownTools, top)) {
			t.Errorf("%s opens connections: write a test in which the server is killed and returns, and name it in killed", dir)
		}
	}
	for dir, tests := range killed {
		if !found[dir] {
			t.Errorf("%s opens no connections: remove it from killed", dir)
		}
		for _, name := range tests {
			in := dir
			if i := strings.LastIndexByte(name, '.'); i >= 0 {
				in, name = name[:i], name[i+1:]
			}
			if !hasTest(t, in, name) {
				t.Errorf("the folder %s has no test %s", in, name)
			}
		}
	}
}

// hasTest reports whether a folder has a test.
func hasTest(t *testing.T, dir, name string) bool {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(f.Decls, func(d ast.Decl) bool {
			fn, ok := d.(*ast.FuncDecl)
			return ok && fn.Name.Name == name
		}) {
			return true
		}
	}
	return false
}
