package capture

import (
	"cmp"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"shuultuur/lib/ascii"
	"shuultuur/lib/suricata/rule"
)

// A bufferTable says that a buffer has a value in one conversation, and is absent in another. Of this
// follow the cases of bufferCases.
type bufferTable struct {
	names   string // of the keyword; "~" is in front of modifiers of contents
	app     string // and the direction in which it is tried, for buffers of both
	value   string
	with    []said
	without []said
	opened  string // what opens the buffer, if that is not its name alone
}

const (
	plainGet   = "c: GET /a%20b/Cd?q=1 HTTP/1.1\nc: Host: A.example:8080\nc: User-Agent: Tool/5.0 (x)\nc: Referer: http://b.example/y\nc: Cookie: Id=7; k=v\nc: Accept: Text/html\nc: Accept-Language: De-at\nc: Accept-Encoding: Gzip\nc: Connection: Keep-alive\nc: Content-Type: Text/plain\nc: Content-Length: 8\nc: \nc: Secret\ns: HTTP/1.1 404 Not Here\ns: Server: Nginx/1\ns: Location: /Else\ns: Set-Cookie: S=2\ns: Content-Type: Text/css\ns: Content-Length: 9\ns: \ns: Answer!"
	bareGet    = "c: GET / HTTP/1.0\nc: \ns: HTTP/1.0 204\ns: \n"
	answerOnly = "c: GET / HTTP/1.1\nc: Host: h\nc: \ns: HTTP/1.1 200 OK\ns: Set-Cookie: S=2\ns: Content-Type: Text/css\ns: Content-Length: 9\ns: \ns: Answer!"
	askOnly    = "c: GET / HTTP/1.1\nc: Host: h\nc: \ns: HTTP/1.1 204 No\ns: \n"
)

// tablesOfBuffers has the buffers whose place in a message is one value.
func tablesOfBuffers(t *testing.T) []bufferTable {
	get, bare := talk(plainGet), talk(bareGet)
	mail, noMail := talk(handedOver), talk("s: 220 a\nc: NOOP\ns: 250 OK\nc: QUIT\ns: 221 Bye")
	question := blocks(binary.BigEndian, uint16(7), uint16(0x0100), uint16(1), uint32(0), uint16(0), "\x05Games\x07example\x00", uint16(1), uint16(1))
	asked := []said{client(string(blocks(binary.BigEndian, uint16(len(question)), question)))}
	md5Of, sha1Of, sha256Of := md5.Sum([]byte("Tool/5.0 (x)")), sha1.Sum([]byte("Tool/5.0 (x)")), sha256.Sum256([]byte("Tool/5.0 (x)"))
	body := func(text string) []said {
		return []said{client("GET / HTTP/1.1\r\nHost: h\r\n\r\n"), server(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text))}
	}
	hello := handshake(t, tls.VersionTLS12, "Shop.example")
	return []bufferTable{
		{"http.uri ~http_uri", "http", "/a b/Cd?q=1", get, nil, ""},
		{"http.uri.raw ~http_raw_uri", "http", "/a%20b/Cd?q=1", get, nil, ""},
		{"http.method ~http_method", "http", "GET", get, nil, ""},
		{"http.host ~http_host", "http", "a.example", get, bare, ""},
		{"http.host.raw ~http_raw_host", "http", "A.example:8080", get, bare, ""},
		{"http.user_agent ~http_user_agent", "http", "Tool/5.0 (x)", get, bare, ""},
		{"http.referer http_referer", "http", "http://b.example/y", get, bare, ""},
		{"http.cookie ~http_cookie", "http to_server", "Id=7; k=v", get, bare, ""},
		{"http.accept http_accept", "http", "Text/html", get, bare, ""},
		{"http.accept_lang http_accept_lang", "http", "De-at", get, bare, ""},
		{"http.accept_enc http_accept_enc", "http", "Gzip", get, bare, ""},
		{"http.connection http_connection", "http to_server", "Keep-alive", get, bare, ""},
		{"http.content_type http_content_type", "http to_server", "Text/plain", get, bare, ""},
		{"http.content_len http_content_len", "http to_server", "8", get, bare, ""},
		{"http.server", "http", "Nginx/1", get, bare, ""},
		{"http.location", "http", "/Else", get, bare, ""},
		{"http.protocol http_protocol", "http", "HTTP/1.1", get, nil, ""},
		{"http.request_line http_request_line", "http", "GET /a%20b/Cd?q=1 HTTP/1.1", get, nil, ""},
		{"http.response_line http_response_line", "http", "HTTP/1.1 404 Not Here", get, nil, ""},
		{"http.stat_code ~http_stat_code", "http", "404", get, nil, ""},
		{"http.stat_msg ~http_stat_msg", "http", "Not Here", get, nil, ""},
		{"http.request_body ~http_client_body", "http", "Secret\r\n", get, talk(askOnly), ""},
		{"http.response_body ~http_server_body", "http", "Answer!\r\n", get, talk(askOnly), ""},
		{"file.data file_data", "http to_client", "Answer!\r\n", talk(answerOnly), talk(askOnly), ""},
		{"smtp.helo", "smtp", "pc.example", mail, noMail, ""},
		{"smtp.mail_from", "smtp", "<a@a.example>", mail, noMail, ""},
		{"email.from", "smtp", "a@a.example", mail, noMail, ""},
		{"email.subject", "smtp", "News", mail, noMail, ""},
		{"email.to", "smtp", "b@b.example, c@b.example", mail, noMail, ""},
		{"http.header ~http_header", "http to_server", "Host: h\r\n", talk(askOnly), bare, ""},
		{"http.header.raw ~http_raw_header", "http to_server", "Host: h\r\n\r\n", talk(askOnly), nil, ""},
		{"http.header_names http_header_names", "http to_server", "\r\nHost\r\n\r\n", talk(askOnly), nil, ""},
		{"http.start http_start", "http to_server", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", talk(askOnly), nil, ""},
		{"http.request_header", "http", "Host: h", talk(askOnly), bare, ""},
		{"http.response_header", "http", "Server: N", talk("c: GET / HTTP/1.1\nc: Host: h\nc: \ns: HTTP/1.1 204 No\ns: Server: N\ns: \n"), talk(askOnly), ""},
		{"file.name", "http to_client", "X.exe", talk(strings.Replace(answerOnly, "Set-Cookie: S=2", "Content-Disposition: attachment; filename=\"X.exe\"", 1)), talk(askOnly), ""},
		{"email.cc", "smtp", "b@b.example, c@b.example", talk(strings.Replace(handedOver, "c: To", "c: Cc", 1)), noMail, ""},
		{"email.date", "smtp", "Today", talk(strings.Replace(handedOver, "c: To", "c: Date: Today\nc: To", 1)), mail, ""},
		{"email.message_id", "smtp", "<A@b>", talk(strings.Replace(handedOver, "c: To", "c: Message-Id: <A@b>\nc: To", 1)), mail, ""},
		{"email.x_mailer", "smtp", "Post 1", talk(strings.Replace(handedOver, "c: To", "c: X-Mailer: Post 1\nc: To", 1)), mail, ""},
		{"email.received", "smtp", "By hand", talk(strings.Replace(handedOver, "c: To", "c: Received: By hand\nc: To", 1)), mail, ""},
		{"ftp.command", "ftp", "RETR", talk("s: 220 a\nc: RETR Dir/x\ns: 150 b"), nil, ""},
		{"ftp.command_data", "ftp", "Dir/x", talk("s: 220 a\nc: RETR Dir/x\ns: 150 b"), talk("s: 220 a\nc: PASV\ns: 500 b"), ""},
		{"ssh.proto ssh_proto", "ssh to_server", "2.0", talk("c: SSH-2.0-OpenSSH_9.2 x\ns: SSH-1.99-dropbear"), nil, ""},
		{"ssh.software ssh_software", "ssh to_server", "OpenSSH_9.2", talk("c: SSH-2.0-OpenSSH_9.2 x\ns: SSH-1.99-dropbear"), nil, ""},
		{"dns.query dns_query", "dns", "Games.example", asked, nil, ""},
		{"dns.queries.rrname dns.query.name", "dns to_server", "Games.example", asked, nil, ""},
		{"tls.sni tls_sni", "tls", "Shop.example", hello, nil, ""},
		{"tls.cert_subject tls_cert_subject", "tls to_client", "CN=Shop.example", hello, nil, ""},
		{"tls.cert_issuer tls_cert_issuer", "tls to_client", "CN=Shop.example", hello, nil, ""},
		{"to_md5", "http", string(md5Of[:]), get, bare, "http.user_agent; to_md5;"},
		{"to_sha1", "http", string(sha1Of[:]), get, bare, "http.user_agent; to_sha1;"},
		{"to_sha256", "http", string(sha256Of[:]), get, bare, "http.user_agent; to_sha256;"},
		{"to_lowercase", "http", "tool/5.0 (x)", get, bare, "http.user_agent; to_lowercase;"},
		{"to_uppercase", "http", "TOOL/5.0 (X)", get, bare, "http.user_agent; to_uppercase;"},
		{"strip_whitespace", "http", "Tool/5.0(x)", get, bare, "http.user_agent; strip_whitespace;"},
		{"compress_whitespace", "http", "Tool 5 x", talk(strings.Replace(plainGet, "Tool/5.0 (x)", "Tool  5 \t x", 1)), bare, "http.user_agent; compress_whitespace;"},
		{"dotprefix", "http", ".a.example", get, bare, "http.host; dotprefix;"},
		{"url_decode", "http", "/a b/Cd?q=1", get, nil, "http.uri.raw; url_decode;"},
		{"xor", "http", "Unnm.4/1!)y(", get, bare, `http.user_agent; xor:"01";`},
		{"pcrexform", "http", "5.0", get, bare, `http.user_agent; pcrexform:"Tool\/([0-9.]+)";`},
		{"domain", "http", "shop.co.uk", talk(strings.Replace(plainGet, "A.example", "www.Shop.co.uk", 1)), bare, "http.host; domain;"},
		{"tld", "http", "co.uk", talk(strings.Replace(plainGet, "A.example", "www.Shop.co.uk", 1)), bare, "http.host; tld;"},
		{"from_base64", "http", "Test", talk(strings.Replace(plainGet, "Tool/5.0 (x)", "VGVzdA==", 1)), bare, "http.user_agent; from_base64;"},
		{"subslice", "http", "ool", get, bare, "http.user_agent; subslice:1,3;"},
		{"header_lowercase", "http to_server", "host: h\r\n", talk(askOnly), bare, "http.header; header_lowercase;"},
		{"strip_pseudo_headers", "http to_server", "Host: h\r\n", talk(askOnly), bare, "http.header; strip_pseudo_headers;"},
		{"gunzip", "http", "Packed", body(gzipped("Packed")), talk(askOnly), "http.response_body; gunzip;"},
		{"base64_data", "http", "Test", talk(strings.Replace(plainGet, "Tool/5.0 (x)", "VGVzdA==", 1)), nil, "http.user_agent; base64_decode; base64_data;"},
	}
}

// An optionTable has what follows a buffer, or nothing, in rules that alert in a conversation, and in
// rules that do not.
type optionTable struct {
	talk, before string
	yes, no      []string
}

// tablesOfOptions has keywords that are about the place, the size or the kind of something. The URI is
// "/a b/Cd?q=1".
func tablesOfOptions() map[string]optionTable {
	uri := func(yes, no []string) optionTable { return optionTable{plainGet, "http.uri;", yes, no} }
	packet := func(yes, no []string) optionTable { return optionTable{plainGet, "tcp", yes, no} }
	file := strings.Replace(answerOnly, "Set-Cookie: S=2", "Content-Disposition: attachment; filename=\"X.exe\"", 1)
	return map[string]optionTable{
		"content": uri([]string{`content:"Cd";`, `content:"|43 64|";`, `content:"C|64|?q";`, `content:!"cd";`, `content:"/"; content:"/";`},
			[]string{`content:"cd";`, `content:!"Cd";`, `content:"Cd?q=12";`, `content:"q=1|00|";`}),
		"nocase": uri([]string{`content:"cD"; nocase;`, `content:"CD?Q"; nocase;`, `content:!"ce"; nocase;`, `content:"/A"; nocase; startswith;`, `content:"Q=1"; nocase; endswith;`},
			[]string{`content:"ce"; nocase;`, `content:!"cD"; nocase;`, `content:"A"; nocase; offset:2;`}),
		"startswith": uri([]string{`content:"/a"; startswith;`, `content:"/a b/Cd?q=1"; startswith;`, `content:!"a"; startswith;`, `content:"/"; startswith; content:"a"; distance:0;`},
			[]string{`content:"a"; startswith;`, `content:!"/a"; startswith;`, `content:"/a b/Cd?q=1x"; startswith;`, `content:"/A"; startswith;`}),
		"endswith": uri([]string{`content:"=1"; endswith;`, `content:"/a b/Cd?q=1"; endswith;`, `content:!"q"; endswith;`, `content:"q"; content:"1"; distance:1; endswith;`},
			[]string{`content:"="; endswith;`, `content:!"1"; endswith;`, `content:"x/a b/Cd?q=1"; endswith;`, `content:"Q=1"; endswith;`}),
		"offset": uri([]string{`content:"/"; offset:0;`, `content:"/"; offset:1;`, `content:"/"; offset:4;`, `content:"1"; offset:10;`, `content:!"/"; offset:5;`},
			[]string{`content:"/"; offset:5;`, `content:"1"; offset:11;`, `content:!"/"; offset:4;`}),
		"depth": uri([]string{`content:"a"; depth:2;`, `content:"Cd"; depth:7;`, `content:"Cd"; offset:5; depth:2;`, `content:!"Cd"; depth:6;`, `content:"a"; depth:1000;`},
			[]string{`content:"a"; depth:1;`, `content:"Cd"; depth:6;`, `content:"Cd"; offset:4; depth:2;`, `content:!"Cd"; depth:7;`}),
		"distance": uri([]string{`content:"a"; content:"b"; distance:1;`, `content:"b"; content:"a"; distance:-3;`, `content:"/"; content:"/"; distance:0;`, `content:"a"; content:!"b"; distance:2;`},
			[]string{`content:"a"; content:"b"; distance:2;`, `content:"b"; content:"a"; distance:-2;`, `content:"1"; content:"q"; distance:0;`, `content:"a"; content:!"b"; distance:1;`}),
		"within": uri([]string{`content:"a"; content:"b"; within:2;`, `content:"a"; content:"b"; distance:1; within:1;`, `content:"a"; content:"Cd"; within:5;`, `content:"a"; content:!"b"; within:1;`, `content:"/"; content:"Cd"; within:2;`},
			[]string{`content:"a"; content:"b"; within:1;`, `content:"a"; content:"Cd"; within:4;`, `content:"a"; content:!"b"; within:2;`}),
		"isdataat": uri([]string{`isdataat:10;`, `isdataat:!11;`, `content:"q"; isdataat:2,relative;`, `content:"q"; isdataat:!3,relative;`},
			[]string{`isdataat:11;`, `isdataat:!10;`, `content:"q"; isdataat:3,relative;`, `content:"q"; isdataat:!2,relative;`}),
		"bsize": uri([]string{`bsize:11;`, `bsize:>10;`, `bsize:<12;`, `bsize:10<>12;`},
			[]string{`bsize:10;`, `bsize:<11;`, `bsize:>11;`, `bsize:11<>12;`, `bsize:5<>11;`}),
		"pcre": uri([]string{`pcre:"/^\/a/";`, `pcre:"/cd/i";`, `pcre:!"/cd/";`, `content:"C"; pcre:"/^d/R";`, `pcre:"/q=\d$/";`},
			[]string{`pcre:"/cd/";`, `pcre:!"/Cd/";`, `content:"C"; pcre:"/^C/R";`, `pcre:"/q=\d\d/";`}),
		"byte_test": uri([]string{`byte_test:1,=,49,10;`, `byte_test:1,>,48,10;`, `byte_test:1,!=,48,10;`, `byte_test:1,=,1,10,string,dec;`, `content:"="; byte_test:1,=,49,0,relative;`, `byte_test:1,&,1,10;`},
			[]string{`byte_test:1,=,48,10;`, `byte_test:1,<,49,10;`, `byte_test:1,!=,49,10;`, `byte_test:1,=,49,11;`, `byte_test:1,&,2,10;`, `byte_test:2,>,0,10;`}),
		"urilen": {plainGet, "", []string{`urilen:11;`, `urilen:13,raw;`, `urilen:11,norm;`, `urilen:>10;`, `urilen:10<>12;`, `urilen:12<>14,raw;`},
			[]string{`urilen:13;`, `urilen:11,raw;`, `urilen:<11;`, `urilen:11<>13;`, `urilen:>11;`}},
		"http.content_length": {plainGet, "flow:to_server;", []string{`http.content_length:8;`, `http.content_length:>7;`, `http.content_length:7<>9;`, `http.content_length:!9;`},
			[]string{`http.content_length:7;`, `http.content_length:<8;`, `http.content_length:>8;`, `http.content_length:!8;`}},
		"flow": {plainGet, "", []string{`flow:to_server; http.method; content:"GET";`, `flow:from_client; http.method; content:"GET";`, `flow:established; http.method; content:"GET";`, `flow:stateless; http.method; content:"GET";`,
			`flow:established,to_server; http.method; content:"GET";`, `flow:to_client; http.stat_code; content:"404";`, `flow:from_server; http.stat_code; content:"404";`},
			[]string{`flow:not_established; http.method; content:"GET";`, `flow:to_client; http.cookie; content:"Id=7";`, `flow:to_server; http.cookie; content:"S=2";`}},
		"filename": {file, "flow:to_client;", []string{`filename:"X.exe";`, `filename:"x.EXE";`, `filename:"exe";`, `filename:!"txt";`, `filename:".e";`},
			[]string{`filename:"txt";`, `filename:!"exe";`, `filename:"X.exe2";`}},
		"fileext": {file, "flow:to_client;", []string{`fileext:"exe";`, `fileext:"EXE";`, `fileext:!"txt";`, `fileext:!"xe";`},
			[]string{`fileext:"txt";`, `fileext:"xe";`, `fileext:!"exe";`, `fileext:"X.exe";`}},
		"ttl":       packet([]string{`ttl:64;`, `ttl:>63;`, `ttl:<65;`, `ttl:63-65;`}, []string{`ttl:63;`, `ttl:<64;`, `ttl:>64;`, `ttl:65-70;`}),
		"tos":       packet([]string{`tos:0;`, `tos:!1;`, `tos:<1;`, `tos:!8;`}, []string{`tos:1;`, `tos:!0;`, `tos:>0;`, `tos:8;`}),
		"id":        packet([]string{`id:0;`, `id:<1;`, `id:!1;`, `id:!7;`}, []string{`id:1;`, `id:>0;`, `id:!0;`, `id:0<>9;`}),
		"window":    packet([]string{`window:65535;`, `window:!7;`, `window:>65534;`, `window:!65534;`}, []string{`window:65534;`, `window:!65535;`, `window:<65535;`, `window:1<>9;`}),
		"seq":       packet([]string{`seq:1000;`, `seq:5000;`, `seq:999<>1001;`, `seq:>999;`}, []string{`seq:999;`, `seq:>4000000;`, `seq:<1000;`, `seq:1000<>1001;`}),
		"ack":       packet([]string{`ack:0;`, `ack:5001;`, `ack:1001;`, `ack:<1;`, `ack:5000<>5002;`}, []string{`ack:7;`, `ack:>4000000;`, `ack:0<>2;`}),
		"ip_proto":  packet([]string{`ip_proto:6;`, `ip_proto:!17;`, `ip_proto:<7;`, `ip_proto:>5;`}, []string{`ip_proto:17;`, `ip_proto:!6;`, `ip_proto:<6;`, `ip_proto:>6;`}),
		"flags":     packet([]string{`flags:S;`, `flags:SA;`, `flags:A;`, `flags:PA;`, `flags:*SR;`, `flags:+F;`}, []string{`flags:R;`, `flags:SF;`, `flags:U;`, `flags:F;`}),
		"tcp.flags": packet([]string{`tcp.flags:S;`, `tcp.flags:SA;`, `tcp.flags:A;`, `tcp.flags:PA;`, `tcp.flags:*SR;`}, []string{`tcp.flags:R;`, `tcp.flags:SF;`, `tcp.flags:U;`}),
		"sameip":    packet(nil, []string{`sameip;`, `sameip; flags:S;`, `flags:A; sameip;`, `sameip; ttl:64;`, `sameip; ack:0;`, `sameip; seq:1000;`, `sameip; ip_proto:6;`, `sameip; window:65535;`}),
		"filesize": {file, "flow:to_client;", []string{`filesize:9;`, `filesize:>8;`, `filesize:<10;`, `filesize:8<>10;`},
			[]string{`filesize:8;`, `filesize:<9;`, `filesize:>9;`, `filesize:9<>12;`}},
	}
}

// quoted writes a text as a content, and as an expression.
func quoted(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		fmt.Fprintf(&b, "|%02X|", c)
	}
	return b.String()
}

func expressionOf(s string) string {
	return strings.NewReplacer("/", `\/`, `"`, `\x22`, ";", `\x3b`, "\r", `\r`, "\n", `\n`).Replace(regexp.QuoteMeta(s))
}

// otherCase changes the case of ASCII letters.
func otherCase(s string) string {
	b := []byte(s)
	for i, c := range b {
		if ascii.IsLetter(c) {
			b[i] ^= 0x20
		}
	}
	return string(b)
}

// A keywordCase is what follows the keyword in a rule, and whether the rule alerts.
type keywordCase struct {
	options string
	absent  bool // in the conversation without
	want    bool
}

// bufferCases returns what holds for each buffer by the documentation: contents and their places,
// negation, sizes, ends, expressions, and absence, which satisfies no content, not even a negated one.
func bufferCases(v string) (all []keywordCase) {
	add := func(want bool, format string, a ...any) {
		all = append(all, keywordCase{fmt.Sprintf(format, a...), false, want})
	}
	n, q := len(v), quoted(v)
	add(true, `content:"%s";`, q)
	add(true, `content:"%s"; startswith; endswith;`, q)
	add(false, `content:"%s"; offset:1;`, q)
	add(n == 1, `content:"%s"; depth:%d;`, quoted(v[:1]), n-n+1)
	all[len(all)-1].want = true // its first byte is where it begins
	add(true, `content:"%s"; offset:%d;`, quoted(v[n-1:]), n-1)
	add(false, `content:!"%s";`, q)
	add(true, `content:!"%s|00|";`, q)
	add(false, `content:"%s|00|";`, q)
	add(true, `content:"%s"; nocase;`, quoted(otherCase(v)))
	add(otherCase(v) == v, `content:"%s";`, quoted(otherCase(v)))
	add(true, `bsize:%d;`, n)
	add(true, `bsize:>%d;`, n-1)
	add(false, `bsize:<%d;`, n)
	add(true, `content:"%s"; isdataat:!1,relative;`, q)
	add(false, `content:"%s"; isdataat:1,relative;`, q)
	add(true, `pcre:"/^%s$/";`, expressionOf(v))
	add(false, `pcre:"/%s./s";`, expressionOf(v))
	if n > 1 {
		add(true, `content:"%s"; content:"%s"; distance:0; within:%d;`, quoted(v[:1]), quoted(v[1:]), n-1)
		add(false, `content:"%s"; content:"%s"; distance:1;`, quoted(v[:1]), quoted(v[1:]))
	}
	for _, x := range []struct {
		options string
		want    bool
	}{{`content:"` + q + `";`, false}, {`content:!"` + q + `";`, false}, {`absent;`, true}, {`absent:or_else; content:"` + q + `";`, true}, {`bsize:0;`, false}} {
		all = append(all, keywordCase{x.options, true, x.want})
	}
	add(false, `absent;`)
	return all
}

// TestEachBufferHasATable tries each buffer of the language by its table, in pieces of two sizes.
func TestEachBufferHasATable(t *testing.T) {
	tried := map[string]int{}
	for _, x := range tablesOfBuffers(t) {
		for name := range strings.FieldsSeq(x.names) {
			name, modifies := strings.CutPrefix(name, "~")
			app, flow, directed := strings.Cut(x.app, " ")
			if directed {
				flow = "flow:" + flow + "; "
			}
			var rules [2]strings.Builder
			var cases []keywordCase
			for _, c := range bufferCases(x.value) {
				if c.absent && x.without == nil || strings.Contains(c.options, quoted("A.EXAMPLE")) || name == "base64_data" && c.options == "absent;" {
					continue // capitals are a mistake where a host is in small letters; what is decoded is no part of a message
				}
				options := cmp.Or(x.opened, name+";") + " " + c.options
				if modifies {
					if strings.Contains(c.options, "pcre") || strings.Contains(c.options, "bsize") || strings.Contains(c.options, "absent") || strings.Contains(c.options, "isdataat") {
						continue
					}
					options = regexp.MustCompile(`content:!?"[^"]*";`).ReplaceAllString(c.options, "$0 "+name+";")
				}
				cases = append(cases, c)
				i := map[bool]int{true: 1}[c.absent]
				fmt.Fprintf(&rules[i], "alert %s any any -> any any (%s%s sid:%d;)\n", app, flow, options, len(cases))
			}
			tried[name] += len(cases)
			for _, size := range []int{5, 1460} {
				for i, what := range [][]said{x.with, x.without} {
					if what == nil || rules[i].Len() == 0 {
						continue
					}
					r := newRecording()
					r.tcp(40300, map[string]uint16{"http": 80, "smtp": 25, "tls": 443, "ftp": 21, "ssh": 22, "dns": 53}[app], size, what...)
					sids, _ := r.found(t, Config{}, rules[i].String())
					for n, c := range cases {
						if got := slices.Contains(sids, n+1); c.absent == (i == 1) && got != c.want {
							t.Errorf("%s; %s in pieces of %d, absent %v: %v, want %v", name, c.options, size, c.absent, got, c.want)
						}
					}
				}
			}
		}
	}
	for name, x := range tablesOfOptions() {
		var rules strings.Builder
		cases := slices.Concat(x.yes, x.no)
		for i, options := range cases {
			if !strings.Contains(options, name) {
				t.Errorf("a case of %s is about another keyword: %s", name, options)
			}
			proto, before := "http", x.before
			if before == "tcp" {
				proto, before = "tcp", ""
			}
			fmt.Fprintf(&rules, "alert %s any any -> any any (%s %s sid:%d;)\n", proto, before, options, i+1)
		}
		tried[name] = len(cases)
		for _, size := range []int{5, 1460} {
			r := newRecording()
			r.tcp(40300, 80, size, talk(x.talk)...)
			sids, _ := r.found(t, Config{}, rules.String())
			for i, options := range cases {
				if got := slices.Contains(sids, i+1); got != (i < len(x.yes)) {
					t.Errorf("%s %s in pieces of %d: %v, want %v", x.before, options, size, got, !got)
				}
			}
		}
	}
	for name, n := range tried {
		if n < 8 {
			t.Errorf("the table of %s has %d cases, at least 8 are wanted", name, n)
		}
	}
	var lacking []string
	for _, k := range rule.Keywords() {
		if tried[k.Name] == 0 && (k.Class == rule.Message || k.Class == rule.Packets) {
			lacking = append(lacking, k.Name)
		}
	}
	if len(lacking) > withoutTable {
		t.Errorf("%d keywords have no table, at most %d may lack one: %s", len(lacking), withoutTable, lacking)
	}
	t.Logf("%d keywords have no table here: %s", len(lacking), lacking)
}

// withoutTable is the number of keywords that have no table here yet. It may only fall: a keyword that
// is added brings its table.
const withoutTable = 149
