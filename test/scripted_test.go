package test

import (
	"bytes"
	"compress/flate"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"shuultuur/intercept"
)

const utteredSettings = `
listen: {proxy: 127.0.0.1:0, admin: 127.0.0.1:0}
data: data
checks:
  phrase: {banned: [banned]}
intercept: {root: root.pem, trust: [origin.pem]}
policies:
  - name: readers
    decrypt: true
    rules:
      - {name: sent, action: block, words: [taboo]}
      - {name: words, action: block, category: [bannedphrase]}
events: {sqlite: events.db, every: 100ms}
proxy: {parent: "http://%s", connect-ports: [80, 443]}
`

// A trial is a way in which a page gets a word from its origin, or sends one there and gets it
// back.
type trial struct {
	name   string
	serve  func(w http.ResponseWriter, r *http.Request, word string)
	js     string
	secure bool   // it needs TLS
	h1     bool   // it needs an origin that speaks HTTP/1
	h2     bool   // it needs an origin that speaks HTTP/2
	known  string // why the word comes through; "" when it must not
}

func flush(w http.ResponseWriter) { w.(http.Flusher).Flush() }

// say answers with the pieces given; WO and RD in them become the parts of the word.
func say(typ string, pieces ...string) func(w http.ResponseWriter, r *http.Request, word string) {
	return func(w http.ResponseWriter, r *http.Request, word string) {
		w.Header().Set("Content-Type", typ)
		for i, p := range pieces {
			if i > 0 {
				time.Sleep(150 * time.Millisecond)
			}
			p = strings.ReplaceAll(p, "WORD", word)
			p = strings.ReplaceAll(p, "WO", word[:3])
			p = strings.ReplaceAll(p, "RD", word[3:])
			fmt.Fprint(w, p)
			flush(w)
		}
	}
}

func coded(enc string, f func([]byte) []byte, typ, body string) func(w http.ResponseWriter, r *http.Request, word string) {
	return func(w http.ResponseWriter, r *http.Request, word string) {
		w.Header().Set("Content-Type", typ)
		if enc != "" {
			w.Header().Set("Content-Encoding", enc)
		}
		p := f([]byte(strings.NewReplacer("WORD", word, "FIRST", word[:3], "LAST", word[3:]).Replace(body)))
		w.Header().Set("Content-Length", strconv.Itoa(len(p)))
		w.Write(p)
	}
}

func whole(p []byte) []byte { return p }

// escaped answers with JSON in which an escape breaks the word.
func escaped(typ string) func(w http.ResponseWriter, r *http.Request, word string) {
	return func(w http.ResponseWriter, r *http.Request, word string) {
		w.Header().Set("Content-Type", typ)
		fmt.Fprintf(w, `{"a":"hello \u%04x%s"}`, word[0], word[1:])
	}
}

const fromJSON = `return (await (await fetch(u)).json()).a`

func based(p []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(p)) }

const fromUTF16 = `return new TextDecoder('utf-16le').decode(await (await fetch(u)).arrayBuffer())`

func wsFrame(first byte, payload []byte) []byte {
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 127), uint64(n))
	}
	return append(b, payload...)
}

func rawDeflate(s string) []byte {
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, 6)
	io.WriteString(w, s)
	w.Flush()
	return bytes.TrimSuffix(b.Bytes(), []byte("\x00\x00\xff\xff"))
}

// sock answers with frames of a WebSocket, or with the first frame of the client.
func sock(deflate bool, frames func(word string) [][]byte) func(w http.ResponseWriter, r *http.Request, word string) {
	return func(w http.ResponseWriter, r *http.Request, word string) {
		h := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
		c, buf, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		ext := ""
		if deflate && strings.Contains(r.Header.Get("Sec-WebSocket-Extensions"), "permessage-deflate") {
			ext = "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover\r\n"
		}
		fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n%s\r\n", base64.StdEncoding.EncodeToString(h[:]), ext)
		if frames == nil { // echo: one frame of the client
			head := make([]byte, 6)
			if _, err := io.ReadFull(buf, head); err != nil {
				return
			}
			p := make([]byte, head[1]&0x7f)
			io.ReadFull(buf, p)
			for i := range p {
				p[i] ^= head[2+i&3]
			}
			c.Write(wsFrame(0x81, []byte(base64.StdEncoding.EncodeToString(p))))
			time.Sleep(300 * time.Millisecond)
			return
		}
		for _, f := range frames(word) {
			c.Write(f)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(300 * time.Millisecond)
	}
}

const (
	jsSSE = `const out=[]; await new Promise(ok=>{const e=new EventSource(u); e.onmessage=m=>{out.push(m.data)}; e.addEventListener('x',m=>out.push(m.data+' '+m.type+m.lastEventId)); e.onerror=()=>{e.close();ok()}; setTimeout(()=>{e.close();ok()},20000)}); return out.join('JOIN')`
	jsWS  = `const out=[]; await new Promise(ok=>{const s=new WebSocket(u.replace('http','ws')); s.binaryType='arraybuffer'; s.onmessage=m=>out.push(typeof m.data=='string'?m.data:new TextDecoder(SOCKCS).decode(m.data)); s.onclose=ok; setTimeout(ok,20000)}); return out.join('JOIN')`
)

// quirkyCSS reads a style sheet in a page without a doctype, where any media type is accepted.
const quirkyCSS = `const f=document.createElement('iframe'); document.body.append(f); const d=f.contentDocument; d.open(); d.write('<body><p id=css>'); d.close(); return await new Promise(ok=>{const l=d.createElement('link');l.rel='stylesheet';l.href=u;l.onload=()=>ok([...l.sheet.cssRules].map(r=>r.cssText).join());l.onerror=()=>ok('E');d.head.append(l)})`

// lorem is longer than the part of a message that the gateway keeps back.
var lorem = strings.Repeat("Lorem ipsum dolor ", 150_000)

// lastOf returns the end of a script's result.
func lastOf(js string) string { return "return (await (async()=>{" + js + "})()).slice(-2000)" }

func ws(join, cs string) string {
	return strings.ReplaceAll(strings.ReplaceAll(jsWS, "JOIN", join), "SOCKCS", cs)
}
func sse(join string) string { return strings.ReplaceAll(jsSSE, "JOIN", join) }

// lines returns text messages.
func lines(s ...string) func(word string) [][]byte {
	return func(word string) (all [][]byte) {
		for _, p := range s {
			p = strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(p, "WORD", word), "WO", word[:3]), "RD", word[3:])
			all = append(all, wsFrame(0x81, []byte(p)))
		}
		return all
	}
}

// octets returns a binary message.
func octets(f func(word string) []byte) func(word string) [][]byte {
	return func(word string) [][]byte { return [][]byte{wsFrame(0x82, f(word))} }
}

func utf16of(s string) []byte {
	var b []byte
	for _, u := range utf16.Encode([]rune(s)) {
		b = append(b, byte(u), byte(u>>8))
	}
	return b
}

func grpcOf(msg []byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(msg)))
	return append(b, msg...)
}

func ranged(typ, body string) func(w http.ResponseWriter, r *http.Request, word string) {
	return func(w http.ResponseWriter, r *http.Request, word string) {
		w.Header().Set("Content-Type", typ)
		http.ServeContent(w, r, "", time.Unix(1e9, 0), strings.NewReader(strings.ReplaceAll(body, "WORD", word)))
	}
}

// echo returns the client's bytes as digits, which no check reads.
func echo(w http.ResponseWriter, r *http.Request, word string) {
	p, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/octet-stream")
	fmt.Fprintf(w, "%x", p)
}

const unhex = `;const t=await r.text(); if(!r.ok||!/^[0-9a-f]*$/.test(t)) return 'E'+r.status; return new TextDecoder().decode(new Uint8Array(t.match(/../g).map(x=>parseInt(x,16))))`

func trials() []trial {
	long := strings.Repeat("Lorem ipsum dolor sit amet consectetur. ", 300)
	pb := func(word string) []byte { return append([]byte{0x0a, byte(len(word))}, word...) }
	return []trial{
		{name: "sse", serve: say("text/event-stream", "data: hello\n\n", "data: WORD\n\n"), js: sse(" ")},
		{name: "sse short after short", serve: say("text/event-stream", "data: hi\n\n", "data: WORD\n\n", "data: yes\n\n"), js: sse(" ")},
		{name: "sse pieces", serve: say("text/event-stream", "data: {\"d\":\"WO\"}\n\n", "data: {\"d\":\"RD\"}\n\n", "data: {\"d\":\" x\"}\n\n"), js: `const out=[]; await new Promise(ok=>{const e=new EventSource(u); e.onmessage=m=>{out.push(JSON.parse(m.data).d)}; e.onerror=()=>{e.close();ok()}; setTimeout(()=>{e.close();ok()},20000)}); return out.join('')`},
		{name: "sse long pieces", serve: say("text/event-stream", "data: "+long[:120]+" and then the WO\n\n", "data: RD was there and many other things were there too\n\n"), js: sse("")},
		{name: "sse long pieces json", serve: say("text/event-stream", "data: {\"delta\":{\"text\":\""+long[:80]+" the WO\"}}\n\n", "data: {\"delta\":{\"text\":\"RD was there and many other things were there too\"}}\n\n"), js: `const out=[]; await new Promise(ok=>{const e=new EventSource(u); e.onmessage=m=>{out.push(JSON.parse(m.data).delta.text)}; e.onerror=()=>{e.close();ok()}; setTimeout(()=>{e.close();ok()},20000)}); return out.join('')`},
		{name: "sse named", serve: say("text/event-stream", "event: x\ndata: y\nid: WORD\n\n"), js: sse(" ")},
		{name: "sse cr", serve: say("text/event-stream", "data: a\r\rdata: WORD\r\r"), js: sse(" ")},
		{name: "sse gzip", serve: coded("gzip", gzipped, "text/event-stream", "data: a\n\ndata: WORD\n\n"), js: sse(" ")},
		{name: "sse br", serve: coded("br", brotlied, "text/event-stream", "data: a\n\ndata: WORD\n\n"), js: sse(" ")},
		{name: "sse zstd upper type", serve: coded("zstd", zstded, "Text/Event-Stream;x=y", "data: a\n\ndata: WORD\n\n"), js: sse(" ")},
		{name: "sse base64", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			say("text/event-stream", "data: "+base64.StdEncoding.EncodeToString([]byte("<p>so "+word+" here it is"))+"\n\n")(w, r, word)
		}, js: strings.ReplaceAll(sse(""), "out.push(m.data)", "out.push(atob(m.data))")},
		{name: "sse html entities", serve: say("text/event-stream", "data: <b>WO</b>RD<br>\n\n"), js: strings.ReplaceAll(sse(""), "out.push(m.data)", "{const d=document.createElement('div');d.innerHTML=m.data;out.push(d.innerText)}")},
		{name: "sse json html", serve: say("text/event-stream", "data: {\"html\":\"<b>WO<\\/b>RD<br>\"}\n\n"), js: strings.ReplaceAll(sse(""), "out.push(m.data)", "{const d=document.createElement('div');d.innerHTML=JSON.parse(m.data).html;out.push(d.innerText)}")},
		{name: "fetch of sse", serve: say("text/event-stream", "hello\n", "WORD\n")},
		{name: "ws text", serve: sock(false, lines("hello", "WORD", "bye")), js: ws(" ", "")},
		{name: "ws pieces", serve: sock(false, lines("WO", "RD", "bye")), js: ws("", "")},
		{name: "ws short lines", serve: sock(false, lines("no", "WORD", "on")), js: ws("\\n", "")},
		{name: "ws deflate", serve: sock(true, func(word string) [][]byte { return [][]byte{wsFrame(0xC1, rawDeflate("hello "+word+" it is"))} }), js: ws(" ", "")},
		{name: "ws deflate fragments", serve: sock(true, func(word string) [][]byte {
			p := rawDeflate("hello " + word + " it is")
			return [][]byte{wsFrame(0x41, p[:3]), wsFrame(0x89, []byte("ping")), wsFrame(0x00, p[3:5]), wsFrame(0x80, p[5:])}
		}), js: ws(" ", "")},
		{name: "ws fragments", serve: sock(false, func(word string) [][]byte {
			return [][]byte{wsFrame(0x01, []byte(word[:2])), wsFrame(0x00, nil), wsFrame(0x80, []byte(word[2:]))}
		}), js: ws(" ", "")},
		{name: "ws binary text", serve: sock(false, octets(func(w string) []byte { return []byte("hello " + w) })), js: ws(" ", "")},
		{name: "ws binary protobuf", serve: sock(false, octets(pb)), js: ws(" ", "")},
		{name: "ws binary utf16", serve: sock(false, octets(func(w string) []byte { return utf16of("hello " + w) })), js: ws(" ", "'utf-16le'")},
		{name: "ws binary gzip", serve: sock(false, octets(func(w string) []byte { return gzipped([]byte("hello " + w)) })), js: strings.Replace(ws(" ", ""), "s.onmessage=m=>out.push(typeof m.data=='string'?m.data:new TextDecoder().decode(m.data))", "s.onmessage=async m=>out.push(await new Response(new Blob([m.data]).stream().pipeThrough(new DecompressionStream('gzip'))).text())", 1)},
		{name: "ws binary zlib", serve: sock(false, octets(func(w string) []byte { return zlibbed([]byte("hello " + w)) })), js: strings.Replace(ws(" ", ""), "s.onmessage=m=>out.push(typeof m.data=='string'?m.data:new TextDecoder().decode(m.data))", "s.onmessage=async m=>out.push(await new Response(new Blob([m.data]).stream().pipeThrough(new DecompressionStream('deflate'))).text())", 1)},
		{name: "ws binary cbor", serve: sock(false, octets(func(w string) []byte { return append([]byte{0xa1, 0x61, 'a', 0x60 | byte(len(w))}, w...) })), js: ws(" ", "'latin1'")},
		{name: "ws json socket.io", serve: sock(false, lines(`42["message",{"t":"W\u004fX WORD"}]`)), js: ws(" ", "")},
		{name: "ws json escaped", serve: sock(false, func(word string) [][]byte {
			return [][]byte{wsFrame(0x81, fmt.Appendf(nil, `{"t":"\u%04x%s"}`, word[0], word[1:]))}
		}), js: strings.ReplaceAll(ws(" ", ""), "?m.data:", "?JSON.parse(m.data).t:")},
		{name: "ws html", serve: sock(false, lines("<b>WO</b>RD<br>")), js: strings.ReplaceAll(ws(" ", ""), "?m.data:", "?(()=>{const d=document.createElement('div');d.innerHTML=m.data;return d.innerText})():")},
		{name: "ws large", serve: sock(false, func(word string) [][]byte {
			return [][]byte{wsFrame(0x81, []byte(strings.Repeat("Lorem ipsum ", 60000)+word))}
		}), js: ws(" ", "")},
		{name: "ws very large", serve: sock(false, func(word string) [][]byte {
			return [][]byte{wsFrame(0x81, []byte(lorem+word+" "+lorem[:1000]))}
		}), js: lastOf(ws(" ", ""))},
		{name: "ws very large, binary in fragments", serve: sock(false, func(word string) [][]byte {
			return [][]byte{wsFrame(0x02, []byte(lorem)), wsFrame(0x00, []byte(lorem[:700_000]+word[:2])), wsFrame(0x80, []byte(word[2:]))}
		}), js: lastOf(ws(" ", ""))},
		{name: "sse very large", serve: say("text/event-stream", "data: "+lorem+"\ndata: "+lorem+"WORD it is\n\n"), js: lastOf(sse(" "))},
		{name: "ndjson very large", serve: say("application/x-ndjson", "{\"a\":\""+lorem+"WORD it is\"}\n"), js: lastOf(`return await (await fetch(u)).text()`)},
		{name: "grpc-web very large", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			say("application/grpc-web+proto", string(grpcOf([]byte(lorem+word))))(w, r, word)
		}, js: lastOf(`return await (await fetch(u)).text()`)},
		{name: "ws base64", serve: sock(false, func(word string) [][]byte {
			return [][]byte{wsFrame(0x81, []byte(base64.StdEncoding.EncodeToString([]byte("so there is "+word+" and more"))))}
		}), js: strings.ReplaceAll(ws(" ", ""), "?m.data:", "?atob(m.data):")},
		{name: "ws sent text", serve: sock(false, nil), js: `return await new Promise(ok=>{const s=new WebSocket(u.replace('http','ws'));let t='';s.onopen=()=>s.send(WORDJS);s.onmessage=m=>{t=atob(m.data)};s.onclose=()=>ok(t);setTimeout(()=>ok(t),20000)})`},
		{name: "ws sent binary", serve: sock(false, nil), js: `return await new Promise(ok=>{const s=new WebSocket(u.replace('http','ws'));let t='';s.onopen=()=>s.send(new TextEncoder().encode('{"a":"'+WORDJS+'"}'));s.onmessage=m=>{t=atob(m.data)};s.onclose=()=>ok(t);setTimeout(()=>ok(t),20000)})`},
		{name: "grpc-web", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			say("application/grpc-web+proto", string(grpcOf(pb(word))))(w, r, word)
		}},
		{name: "grpc-web-text", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			say("application/grpc-web-text", base64.StdEncoding.EncodeToString(grpcOf(pb(word))))(w, r, word)
		}, js: `return atob(await (await fetch(u)).text())`},
		{name: "grpc-web gzip", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			w.Header().Set("Grpc-Encoding", "gzip")
			p := grpcOf(gzipped(pb(word)))
			p[0] = 1
			say("application/grpc-web", string(p))(w, r, word)
		}, js: `const b=await (await fetch(u)).arrayBuffer(); return await new Response(new Blob([b.slice(5)]).stream().pipeThrough(new DecompressionStream('gzip'))).text()`},
		{name: "connect json stream", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			say("application/connect+json", string(grpcOf([]byte(`{"t":"`+word+`"}`))))(w, r, word)
		}},
		{name: "connect proto stream", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			say("application/connect+proto", string(grpcOf(pb(word))))(w, r, word)
		}},
		{name: "ndjson", serve: say("application/x-ndjson", "{\"a\":\"x\"}\n", "{\"a\":\"WORD\"}\n")},
		{name: "ndjson pieces", serve: say("application/x-ndjson", "{\"a\":\"the WO\"}\n", "{\"a\":\"RD is\"}\n"), js: `return (await (await fetch(u)).text()).split('\n').filter(x=>x).map(x=>JSON.parse(x).a).join('')`},
		{name: "ndjson pieces at once", serve: say("application/x-ndjson", "{\"a\":\"the WO\"}\n{\"a\":\"RD is\"}\n"), js: `return (await (await fetch(u)).text()).split('\n').filter(x=>x).map(x=>JSON.parse(x).a).join('')`},
		{name: "json seq", serve: say("application/json-seq", "\x1e{\"a\":\"WORD\"}\n")},
		{name: "stream text slow", serve: say("text/plain", long, "and WO", "RD it is", " end")},
		{name: "stream octets", serve: say("application/octet-stream", "hello ", "WORD ")},
		{name: "no type", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			w.Header()["Content-Type"] = nil
			fmt.Fprint(w, "hello "+word)
		}},
		{name: "text as image", serve: say("image/png", "hello WORD")},
		{name: "text as font", serve: say("font/woff2", "hello WORD")},
		{name: "text as wasm", serve: say("application/wasm", "hello WORD")},
		{name: "html as image in document", serve: say("image/png", "<p>hello WORD")},
		{name: "protobuf", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			say("application/x-protobuf", string(pb(word)))(w, r, word)
		}},
		{name: "msgpack", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			say("application/msgpack", "\x81\xa1a"+string(rune(0xa0|len(word)))+word)(w, r, word)
		}},
		{name: "gzip in octets", serve: coded("", gzipped, "application/octet-stream", "hello WORD"), js: `return await new Response((await fetch(u)).body.pipeThrough(new DecompressionStream('gzip'))).text()`},
		{name: "text as video", serve: say("video/mp4", "hello WORD")},
		{name: "text as audio", serve: say("audio/mpeg", "hello WORD")},
		{name: "text as a type nobody knows", serve: say("application/x-thing", "hello WORD")},
		{name: "text as a script", serve: say("text/javascript", "hello WORD")},
		{name: "text as a style sheet", serve: say("text/css", "hello WORD")},
		{name: "text as a playlist", serve: say("application/vnd.apple.mpegurl", "hello WORD")},
		{name: "utf16", serve: coded("", func(p []byte) []byte { return utf16of(string(p)) }, "application/octet-stream", "hello WORD it is"), js: fromUTF16},
		{name: "utf16 as text", serve: coded("", func(p []byte) []byte { return utf16of(string(p)) }, "text/plain", "hello WORD it is"), js: fromUTF16},
		{name: "utf16 as a picture", serve: coded("", func(p []byte) []byte { return utf16of(string(p)) }, "image/png", "hello WORD it is"), js: fromUTF16},
		{name: "text in a format nobody knows", serve: say("application/octet-stream", "\x01\x00\x05\x10hello WORD it is\x00\xff\xfe")},
		{name: "zlib in octets", serve: coded("", zlibbed, "application/octet-stream", "hello WORD"), js: `return await new Response((await fetch(u)).body.pipeThrough(new DecompressionStream('deflate'))).text()`},
		{name: "base64", serve: coded("", based, "text/plain", "hello there is WORD"), js: `return atob(await (await fetch(u)).text())`},
		{name: "base64 in json", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			say("application/json", `{"name":"a.txt","content":"`+base64.StdEncoding.EncodeToString([]byte("hello there is "+word))+`"}`)(w, r, word)
		}, js: `return atob((await (await fetch(u)).json()).content)`},
		{name: "json array pieces", serve: coded("", whole, "application/json", `[{"a":"the FIRST"},{"a":"LAST is"}]`), js: `return (await (await fetch(u)).json()).map(x=>x.a).join('')`},
		{name: "json array tokens", serve: coded("", whole, "application/json", `[" the"," FIRST","LAST"," is"]`), js: `return (await (await fetch(u)).json()).join('')`},
		{name: "json array streamed", serve: say("application/json", "[{\"a\":\"the WO\"}\n", ",{\"a\":\"RD is\"}]"), js: `return (await (await fetch(u)).json()).map(x=>x.a).join('')`},
		{name: "ndjson pieces with length", serve: coded("", whole, "application/x-ndjson", "{\"a\":\"the FIRST\"}\n{\"a\":\"LAST is\"}\n"), js: `return (await (await fetch(u)).text()).split('\n').filter(x=>x).map(x=>JSON.parse(x).a).join('')`},
		{name: "sse lines of one event", serve: say("text/event-stream", "data: the WO\ndata: RD is\n\n"), js: strings.ReplaceAll(sse(""), "out.push(m.data)", "out.push(m.data.replace('\\n',''))")},
		{name: "json as text, escaped", serve: escaped("text/plain"), js: fromJSON},
		{name: "json as a page, escaped", serve: escaped("text/html"), js: fromJSON},
		{name: "json as octets, escaped", serve: escaped("application/octet-stream"), js: fromJSON},
		{name: "json as a script, escaped", serve: escaped("text/javascript"), js: fromJSON},
		{name: "json as a picture, escaped", serve: escaped("image/png"), js: fromJSON},
		{name: "json as text, pieces", serve: coded("", whole, "text/plain", `[{"a":"the FIRST"},{"a":"LAST is"}]`), js: `return (await (await fetch(u)).json()).map(x=>x.a).join('')`},
		{name: "form data", serve: coded("", whole, "multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nhello WORD\r\n--b--\r\n"), js: `return (await (await fetch(u)).formData()).get('a')`},
		{name: "urlencoded", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			say("application/x-www-form-urlencoded", fmt.Sprintf("a=hello+%%%x%s", word[0], word[1:]))(w, r, word)
		}, js: `return (await (await fetch(u)).formData()).get('a')`},
		{name: "urlencoded as text", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			say("text/plain", fmt.Sprintf("a=hello%%20%%%x%s", word[0], word[1:]))(w, r, word)
		}, js: `return new URLSearchParams(await (await fetch(u)).text()).get('a')`},
		{name: "html as text", serve: say("text/plain", "<p>hello WO<b>RD</b></p>"), js: `const d=document.createElement('div');d.innerHTML=await (await fetch(u)).text();return d.innerText`},
		{name: "html as octets", serve: say("application/octet-stream", "<p>hello WO<b>RD</b></p>"), js: `const d=document.createElement('div');d.innerHTML=await (await fetch(u)).text();return d.innerText`},
		{name: "html reference as text", serve: say("text/plain", "hello WO&#8203;&#x200b;RD"), js: `const d=document.createElement('div');d.innerHTML=await (await fetch(u)).text();return d.innerText.replaceAll('\u200b','')`},
		{name: "xml as text", serve: say("text/plain", "<a><b>WO</b><b>RD</b></a>"), js: `return new DOMParser().parseFromString(await (await fetch(u)).text(),'text/xml').documentElement.textContent`},
		{name: "csv columns", serve: say("text/csv", "a,b\nhello,WORD\n")},
		{name: "json module", serve: say("application/json", `{"a":"WORD"}`), js: `return JSON.stringify((await import(u,{with:{type:'json'}})).default)`},
		{name: "range 206", serve: ranged("text/plain", long+"WORD it is"), js: fmt.Sprintf(`return await (await fetch(u,{headers:{Range:'bytes=%d-'}})).text()`, len(long)-5)},
		{name: "range half word", serve: ranged("text/plain", long+"WORD it is"), js: fmt.Sprintf(`const a=await (await fetch(u,{headers:{Range:'bytes=0-%d'}})).text();const b=await (await fetch(u,{headers:{Range:'bytes=%d-'}})).text(); return a.length+b.length>%d?b:a+b`, len(long)+2, len(long)+3, len(long)+30)},
		{name: "multirange", serve: ranged("text/plain", long+"WORD it is"), js: fmt.Sprintf(`return await (await fetch(u,{headers:{Range:'bytes=0-3,%d-'}})).text()`, len(long)-5)},
		{name: "byteranges unasked", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			w.Header().Set("Content-Type", "multipart/byteranges; boundary=b")
			w.WriteHeader(206)
			fmt.Fprintf(w, "--b\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-9/99\r\n\r\nhello %s\r\n--b--\r\n", word)
		}},
		{name: "HEAD header", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			w.Header().Set("X-Note", "a")
			w.Header().Set("Content-Type", "text/html")
			if r.Method != "HEAD" {
				fmt.Fprint(w, word)
			}
		}, js: `await fetch(u,{method:'HEAD'}); return await (await fetch(u)).text()`},
		{name: "304", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			w.Header().Set("ETag", `"x"`)
			w.Header().Set("Content-Type", "text/html")
			if r.Header.Get("If-None-Match") != "" {
				w.WriteHeader(304)
				return
			}
			fmt.Fprint(w, "hello "+word)
		}, js: `return await (await fetch(u,{headers:{'If-None-Match':'"x"'},cache:'no-store'})).text()`},
		{name: "xhr", serve: say("text/plain", "hello WORD"), js: `return await new Promise(ok=>{const x=new XMLHttpRequest();x.open('GET',u);x.onloadend=()=>ok(x.responseText);x.send()})`},
		{name: "vtt track", serve: say("text/vtt", "WEBVTT\n\n00:00.000 --> 00:09.000\nhello WORD\n"), js: `return await new Promise(ok=>{const v=document.createElement('video');const t=document.createElement('track');t.default=true;t.src=u;v.append(t);document.body.append(v);t.onload=()=>ok([...t.track.cues].map(c=>c.text).join());t.onerror=()=>ok('E');t.track.mode='showing';setTimeout(()=>ok('T'),20000)})`},
		{name: "external css", serve: say("text/css", "#css::before{content:'hello WORD'}"), js: `return await new Promise(ok=>{const l=document.createElement('link');l.rel='stylesheet';l.href=u;l.onload=()=>ok([...l.sheet.cssRules].map(r=>r.cssText).join());l.onerror=()=>ok('E');document.head.append(l)})`},
		{name: "external css escapes", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			say("text/css", fmt.Sprintf(`#css::before{content:"\%x%s"}`, word[0], " "+word[1:]))(w, r, word)
		}, js: `return await new Promise(ok=>{const l=document.createElement('link');l.rel='stylesheet';l.href=u;l.onload=()=>ok([...l.sheet.cssRules].map(r=>r.cssText).join());l.onerror=()=>ok('E');document.head.append(l)})`},
		{name: "external css split", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			say("text/css", fmt.Sprintf(`:root{--a:"%s"}#css::before{content:"%s" "%s"}`, word[:3], word[:3], word[3:]))(w, r, word)
		}, js: `return await new Promise(ok=>{const l=document.createElement('link');l.rel='stylesheet';l.href=u;l.onload=()=>ok([...l.sheet.cssRules].map(r=>r.cssText).join().replace(/" "/g,''));l.onerror=()=>ok('E');document.head.append(l)})`},
		{name: "external css of another type", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			say("application/octet-stream", fmt.Sprintf(`#css::before{content:"\%x%s"}`, word[0], " "+word[1:]))(w, r, word)
		}, js: quirkyCSS},
		{name: "external css as a picture", serve: say("image/png", "#css::before{content:'hello WORD'}"), js: quirkyCSS},
		{name: "svg image", serve: say("image/svg+xml", "<svg xmlns='http://www.w3.org/2000/svg'><text y='20'>WORD</text></svg>")},
		{name: "blob url", serve: say("text/plain", "<p>hello WORD"), js: `const b=URL.createObjectURL(new Blob([await (await fetch(u)).text()],{type:'text/html'})); const f=document.createElement('iframe'); f.src=b; document.body.append(f); await new Promise(ok=>f.onload=ok); return f.contentDocument.body.innerText`},
		{name: "302 body", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(300)
			fmt.Fprint(w, "hello "+word)
		}},
		{name: "404 body", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(404)
			fmt.Fprint(w, "hello "+word)
		}},
		{name: "post answer", serve: say("text/plain", "hello WORD"), js: `return await (await fetch(u,{method:'POST',body:'x'})).text()`},
		{name: "put answer", serve: say("text/plain", "hello WORD"), js: `return await (await fetch(u,{method:'PUT',body:'x'})).text()`},
		{name: "mixed replace", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			say("multipart/x-mixed-replace; boundary=b", "--b\r\nContent-Type: text/html\r\n\r\nhello\r\n", "--b\r\nContent-Type: text/html\r\n\r\nhello "+word+"\r\n--b--\r\n")(w, r, word)
		}},
		{name: "gzip twice fields", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			w.Header()["Content-Encoding"] = []string{"gzip", "br"}
			w.Header().Set("Content-Type", "text/html")
			w.Write(brotlied(gzipped([]byte("<p>hello " + word))))
		}, secure: true},
		// messages of clients
		{name: "post text", serve: echo, js: `const r=await fetch(u,{method:'POST',body:'hello '+WORDJS})` + unhex},
		{name: "post urlencoded", serve: echo, js: `const r=await fetch(u,{method:'POST',body:new URLSearchParams({q:'hello '+WORDJS})})` + unhex},
		{name: "post urlencoded hex", serve: echo, js: `const r=await fetch(u,{method:'POST',headers:{'Content-Type':'application/x-www-form-urlencoded'},body:'q='+[...WORDJS].map(c=>'%'+c.charCodeAt(0).toString(16)).join('')})` + strings.Replace(unhex, "return new TextDecoder().decode", "return decodeURIComponent(new TextDecoder().decode", 1) + ")"},
		{name: "post multipart", serve: echo, js: `const f=new FormData();f.append('q','hello '+WORDJS);const r=await fetch(u,{method:'POST',body:f})` + unhex},
		{name: "post file", serve: echo, js: `const f=new FormData();f.append('q',new Blob(['hello '+WORDJS],{type:'text/plain'}),'x.txt');const r=await fetch(u,{method:'POST',body:f})` + unhex},
		{name: "post file untyped", serve: echo, js: `const f=new FormData();f.append('q',new Blob(['hello '+WORDJS]),'x.bin');const r=await fetch(u,{method:'POST',body:f})` + unhex},
		{name: "post file name", serve: echo, js: `const f=new FormData();f.append('q',new Blob(['x']),'about '+WORDJS+'.txt');const r=await fetch(u,{method:'POST',body:f})` + unhex},
		{name: "post field name", serve: echo, js: `const f=new FormData();f.append('about '+WORDJS,'x');const r=await fetch(u,{method:'POST',body:f})` + unhex},
		{name: "post file image type", serve: echo, js: `const f=new FormData();f.append('q',new Blob(['hello '+WORDJS],{type:'image/png'}),'x.png');const r=await fetch(u,{method:'POST',body:f})` + unhex},
		{name: "post json", serve: echo, js: `const r=await fetch(u,{method:'POST',headers:{'Content-Type':'application/json'},body:JSON.stringify({messages:[{role:'user',content:'hello '+WORDJS}]})})` + unhex},
		{name: "post json as text", serve: echo, js: `const r=await fetch(u,{method:'POST',body:JSON.stringify({a:{b:'hello\\n'+WORDJS}})})` + unhex},
		{name: "post json escaped", serve: echo, js: `const r=await fetch(u,{method:'POST',headers:{'Content-Type':'application/json'},body:'{"a":"'+[...WORDJS].map(c=>'\\u00'+c.charCodeAt(0).toString(16)).join('')+'"}'})` + strings.Replace(unhex, "return new TextDecoder().decode", "return JSON.parse(new TextDecoder().decode", 1) + ").a"},
		{name: "post octets", serve: echo, js: `const r=await fetch(u,{method:'POST',headers:{'Content-Type':'application/octet-stream'},body:'hello '+WORDJS})` + unhex},
		{name: "post blob no type", serve: echo, js: `const r=await fetch(u,{method:'POST',body:new Uint8Array(new TextEncoder().encode('hello '+WORDJS))})` + unhex},
		{name: "post as image", serve: echo, js: `const r=await fetch(u,{method:'POST',headers:{'Content-Type':'image/png'},body:'hello '+WORDJS})` + unhex},
		{name: "post protobuf", serve: echo, js: `const r=await fetch(u,{method:'POST',headers:{'Content-Type':'application/x-protobuf'},body:'\n'+String.fromCharCode(WORDJS.length)+WORDJS})` + unhex},
		{name: "post grpc-web", serve: echo, js: `const r=await fetch(u,{method:'POST',headers:{'Content-Type':'application/grpc-web'},body:'\0\0\0\0'+String.fromCharCode(WORDJS.length+2)+'\n'+String.fromCharCode(WORDJS.length)+WORDJS})` + unhex},
		{name: "post gzip", serve: echo, js: `const z=await new Response(new Blob(['hello '+WORDJS]).stream().pipeThrough(new CompressionStream('gzip'))).arrayBuffer();const r=await fetch(u,{method:'POST',headers:{'Content-Encoding':'gzip','Content-Type':'text/plain'},body:z});const t=await r.text(); if(!r.ok||!/^[0-9a-f]*$/.test(t)) return 'E'+r.status; return await new Response(new Blob([new Uint8Array(t.match(/../g).map(x=>parseInt(x,16)))]).stream().pipeThrough(new DecompressionStream('gzip'))).text()`},
		{name: "post gzip unlabelled", serve: echo, js: `const z=await new Response(new Blob(['hello '+WORDJS]).stream().pipeThrough(new CompressionStream('gzip'))).arrayBuffer();const r=await fetch(u,{method:'POST',body:z});const t=await r.text(); if(!r.ok||!/^[0-9a-f]*$/.test(t)) return 'E'+r.status; return await new Response(new Blob([new Uint8Array(t.match(/../g).map(x=>parseInt(x,16)))]).stream().pipeThrough(new DecompressionStream('gzip'))).text()`},
		{name: "beacon", serve: echo, js: `const r=await fetch(u,{method:'POST',keepalive:true,body:'hello '+WORDJS})` + unhex},
		{name: "put json", serve: echo, js: `const r=await fetch(u,{method:'PUT',headers:{'Content-Type':'application/json'},body:JSON.stringify({a:'hello '+WORDJS})})` + unhex},
		{name: "patch json", serve: echo, js: `const r=await fetch(u,{method:'PATCH',headers:{'Content-Type':'application/merge-patch+json'},body:JSON.stringify({a:'hello '+WORDJS})})` + unhex},
		{name: "delete body", serve: echo, js: `const r=await fetch(u,{method:'DELETE',body:'hello '+WORDJS})` + unhex},
	}
}

// All data that scripts of a page read and send by every means of a browser is inspected. Each
// trial succeeds with an innocent word, and fails with a listed one.
func TestWhatScriptsReadAndSendIsInspected(t *testing.T) {
	t.Parallel()
	inspectTrials(t, trials())
}

func inspectTrials(t *testing.T, all []trial) {
	for name, begin := range map[string]func(*httptest.Server){
		"decrypted, HTTP/1": (*httptest.Server).StartTLS,
		"decrypted, HTTP/2": func(s *httptest.Server) { s.EnableHTTP2 = true; s.StartTLS() },
		"not encrypted":     (*httptest.Server).Start,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testTrials(t, all, begin)
		})
	}
}

func testTrials(t *testing.T, all []trial, begin func(*httptest.Server)) {
	words := []string{"quayle", "fordiz"} // the second is listed
	h := newHouse(t, nil)
	page := `<!doctype html><body><p id=css>page</p>`
	origin := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var i, k int
		if n, _ := fmt.Sscanf(r.URL.Path, "/t/%d/%d", &i, &k); n == 2 {
			all[i].serve(w, r, words[k])
			return
		}
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, page)
	}))
	begin(origin)
	t.Cleanup(origin.Close)
	parent := connector(t, origin.Listener.Addr().String(), origin.Listener.Addr().String())
	root, err := intercept.NewRoot(intercept.RootConfig{})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(h.file)
	root.Write(filepath.Join(dir, "root.pem"), false)
	export, _ := root.Export("pem", "")
	h.write("client-root.pem", string(export))
	h.write("banned", "<*"+words[1]+"*>\n") // wherever it is in a word: what is tested is reading
	trusted, scheme := export, "http"
	if c := origin.Certificate(); c != nil {
		trusted, scheme = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}), "https"
	}
	h.write("origin.pem", string(trusted))
	h.write("shuultuur.yaml", strings.Replace(fmt.Sprintf(utteredSettings, parent), "taboo", words[1], 1))
	h.restart()
	b := newBrowserAt(t, newHome(t, filepath.Join(dir, "client-root.pem")), h.g.ProxyAddr())
	b.call("POST", b.session+"/timeouts", map[string]any{"script": 300000}, nil)
	b.open(scheme + "://www.example.com/")
	applies := func(c trial) bool {
		h2 := origin.EnableHTTP2
		return !(c.secure && scheme == "http" || c.h1 && h2 || c.h2 && !h2 || c.known != "")
	}
	// run runs trials with a word, some at a time, and returns what each page got.
	run := func(k int, which []int, atOnce int) map[string]string {
		var js strings.Builder
		js.WriteString("const done=arguments[0]; const all={}; const jobs=[];")
		for _, i := range which {
			body := all[i].js
			if body == "" {
				body = "return await (await fetch(u)).text()"
			}
			body = strings.ReplaceAll(body, "WORDJS", "'"+words[k]+"'")
			name, _ := json.Marshal(all[i].name)
			fmt.Fprintf(&js, "jobs.push([%s, async()=>{const u=location.origin+'/t/%d/%d?x'; %s}]);\n", name, i, k, body)
		}
		fmt.Fprintf(&js, `(async()=>{let at=0; const run=async()=>{while(at<jobs.length){const [n,f]=jobs[at++]; const from=Date.now(); try{all[n]=String(await Promise.race([f(),new Promise(ok=>setTimeout(()=>ok('TIMEOUT'),40000))]))}catch(e){all[n]='E:'+e} all['took '+n]=String(Date.now()-from)}}; await Promise.all(Array.from({length:%d},run)); done(JSON.stringify(all))})()`, atOnce)
		var s string
		b.call("POST", b.session+"/execute/async", map[string]any{"script": js.String(), "args": []any{}}, &s)
		var got map[string]string
		json.Unmarshal([]byte(s), &got)
		return got
	}
	has := func(got map[string]string, c trial, word string) bool {
		return strings.Contains(strings.ReplaceAll(got[c.name], "\x00", ""), word)
	}
	var which []int
	for i := range all {
		which = append(which, i)
	}
	var results [2]map[string]string
	for k := range words {
		results[k] = run(k, which, 6)
	}
	// A browser on a busy machine gives up a worker, or shows a frame late. What did not come
	// through beside five others is tried again alone.
	for range 3 {
		which = slices.DeleteFunc(which, func(i int) bool { return !applies(all[i]) || has(results[0], all[i], words[0]) })
		if len(which) == 0 {
			break
		}
		for name, got := range run(0, which, 1) {
			if before := results[0][name]; before != got && !strings.HasPrefix(name, "took ") {
				t.Logf("the trial %s got %q before %q", name, before, got)
			}
			results[0][name] = got
		}
	}
	for _, c := range all {
		if !applies(c) {
			continue
		}
		for k := range results {
			if took := results[k]["took "+c.name]; len(took) > 4 {
				t.Logf("the trial %s took %s ms", c.name, took)
			}
		}
		works := has(results[0], c, words[0])
		leaks := has(results[1], c, words[1])
		end := func(s string) string { return s[max(0, len(s)-80):] }
		switch {
		case !works:
			t.Errorf("%s: the allowed word does not come through; the page got %q", c.name, end(results[0][c.name]))
		case leaks:
			t.Errorf("%s: the listed word comes through; the page got %q", c.name, end(results[1][c.name]))
		}
	}
}
