package test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// raws answers with bytes as they are, with the parts of the word in them.
func raws(pieces ...string) func(w http.ResponseWriter, r *http.Request, word string) {
	return func(w http.ResponseWriter, r *http.Request, word string) {
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		for _, p := range pieces {
			io.WriteString(c, strings.NewReplacer("WORD", word, "FIRST", word[:3], "LAST", word[3:]).Replace(p))
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// answerWith answers with a body that depends on the word.
func answerWith(typ string, f func(word string) string, fields ...string) func(w http.ResponseWriter, r *http.Request, word string) {
	return func(w http.ResponseWriter, r *http.Request, word string) {
		w.Header().Set("Content-Type", typ)
		for i := 0; i+1 < len(fields); i += 2 {
			w.Header().Set(fields[i], fields[i+1])
		}
		io.WriteString(w, f(word))
	}
}

// asked answers a second request, for another part of a path, differently.
func byQuery(parts map[string]func(w http.ResponseWriter, r *http.Request, word string)) func(w http.ResponseWriter, r *http.Request, word string) {
	return func(w http.ResponseWriter, r *http.Request, word string) {
		q := r.URL.RawQuery
		if f := parts[q]; f != nil {
			f(w, r, word)
			return
		}
		parts[""](w, r, word)
	}
}

// zipWith returns an archive with one file.
func zipWith(name, text string) string {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	f, _ := z.Create(name)
	io.WriteString(f, text)
	_ = z.Close()
	return b.String()
}

func unicodeEscaped(s string) string {
	var b strings.Builder
	for _, c := range s {
		fmt.Fprintf(&b, `\u%04X`, c)
	}
	return b.String()
}

// deflatedMessages compresses two messages, each with its own window unless they take it over.
func deflatedMessages(takeover bool, parts ...string) [][]byte {
	var all [][]byte
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, 6)
	for _, p := range parts {
		io.WriteString(w, p)
		w.Flush()
		all = append(all, wsFrame(0xC1, bytes.TrimSuffix(bytes.Clone(b.Bytes()), []byte("\x00\x00\xff\xff"))))
		b.Reset()
		if !takeover {
			w.Reset(&b)
		}
	}
	return all
}

const fetchText = `return await (await fetch(u)).text()`

func moreTrials() []trial {
	multi := func(parts string) string { // a script that sends a multipart body with boundary B
		return `const b=` + parts + `; const r=await fetch(u,{method:'POST',headers:{'Content-Type':'multipart/form-data; boundary=B'},body:b.replaceAll('WORD',WORDJS).replaceAll('\n','\r\n')})` + unhex
	}
	post := func(typ, body string) string {
		return `const r=await fetch(u,{method:'POST',headers:{'Content-Type':'` + typ + `'},body:` + body + `})` + unhex
	}
	compressed := func(format, label, typ string) string {
		return `const z=await new Response(new Blob(['hello '+WORDJS+' it is']).stream().pipeThrough(new CompressionStream('` + format + `'))).arrayBuffer();const r=await fetch(u,{method:'POST',headers:{` + label + `'Content-Type':'` + typ + `'},body:z});const t=await r.text(); if(!r.ok||!/^[0-9a-f]*$/.test(t)) return 'E'+r.status; return await new Response(new Blob([new Uint8Array(t.match(/../g).map(x=>parseInt(x,16)))]).stream().pipeThrough(new DecompressionStream('` + format + `'))).text()`
	}
	wsJS := func(get string) string { return strings.ReplaceAll(ws(" ", ""), "?m.data:", "?("+get+"):") }
	sendWS := func(send string) string {
		return `return await new Promise(ok=>{const s=new WebSocket(u.replace('http','ws'));let t='';s.onopen=()=>{` + send + `};s.onmessage=m=>{t=atob(m.data)};s.onclose=()=>ok(t);setTimeout(()=>ok(t),20000)})`
	}
	sw := func(respond string) string { // a service worker answers; it is registered for its own folder
		return `const reg=await navigator.serviceWorker.register(u+'&sw',{scope:u+'&page'}); const w=reg.installing||reg.waiting||reg.active; await new Promise(ok=>{if(w.state=='activated')ok();w.onstatechange=()=>(w.state=='activated'||w.state=='redundant')&&ok()}); const f=document.createElement('iframe'); f.src=u+'&page'; document.body.append(f); await new Promise(ok=>f.onload=ok); await new Promise(ok=>setTimeout(ok,300)); const t=f.contentDocument.body.innerText; await reg.unregister(); f.remove(); return t`
	}
	worker := func(js string) func(w http.ResponseWriter, r *http.Request, word string) {
		return func(w http.ResponseWriter, r *http.Request, word string) {
			switch {
			case strings.Contains(r.URL.RawQuery, "sw"):
				say("text/javascript", js)(w, r, word)
			case strings.Contains(r.URL.RawQuery, "data"):
				say("text/html", "<p>hello WO<b>RD</b>")(w, r, word)
			default:
				say("text/html", "<p>nothing")(w, r, word)
			}
		}
	}
	return []trial{
		// Server-sent events.
		{name: "sse mark", serve: say("text/event-stream", "\xef\xbb\xbfdata: WORD\n\n"), js: sse(" ")},
		{name: "sse without blank", serve: say("text/event-stream", "data:WORD\n\n"), js: sse(" ")},
		{name: "sse retry and comment", serve: say("text/event-stream", ":x\nretry: 10\ndata: WORD\nevent: message\n\n"), js: sse(" ")},
		{name: "sse crlf", serve: say("text/event-stream", "data: a\r\n\r\ndata: WORD\r\n\r\n"), js: sse(" ")},
		{name: "sse mixed ends", serve: say("text/event-stream", "data: a\r\ndata: b\n\rdata: WORD\r\n\n"), js: sse(" ")},
		{name: "sse three lines", serve: say("text/event-stream", "data: WO\ndata:\ndata: RD\n\n"), js: strings.ReplaceAll(sse(""), "out.push(m.data)", "out.push(m.data.replaceAll('\\n',''))")},
		{name: "sse letters", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			var p []string
			for _, c := range word {
				p = append(p, "data: "+string(c)+"\n\n")
			}
			say("text/event-stream", append(p, "data: .\n\n")...)(w, r, word)
		}, js: sse("")},
		{name: "sse json letters", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			var p []string
			for i, c := range word {
				p = append(p, fmt.Sprintf("id: %d\ndata: {\"id\":\"c%d\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\\u%04x\"}}]}\n\n", i, i, c))
			}
			say("text/event-stream", append(p, "data: [DONE]\n\n")...)(w, r, word)
		}, js: `const out=[]; await new Promise(ok=>{const e=new EventSource(u); e.onmessage=m=>{if(m.data[0]=='{')out.push(JSON.parse(m.data).choices[0].delta.content)}; e.onerror=()=>{e.close();ok()}; setTimeout(()=>{e.close();ok()},20000)}); return out.join('')`},
		{name: "sse json string in json", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			say("text/event-stream", fmt.Sprintf("data: {\"a\":\"{\\\"b\\\":\\\"%s\\\"}\"}\n\n", strings.ReplaceAll(unicodeEscaped(word), `\`, `\\`)))(w, r, word)
		}, js: strings.ReplaceAll(sse(""), "out.push(m.data)", "out.push(JSON.parse(JSON.parse(m.data).a).b)")},
		{name: "sse array deltas", serve: say("text/event-stream", "data: [\"WO\",\"RD\"]\n\n"), js: strings.ReplaceAll(sse(""), "out.push(m.data)", "out.push(JSON.parse(m.data).join(''))")},
		{name: "sse between others", serve: say("text/event-stream", "data: {\"a\":\"WO\"}\n\n", ": ping\n\n", "event: x\ndata: {\"a\":\"RD\"}\n\n"), js: `const out=[]; await new Promise(ok=>{const e=new EventSource(u); const f=m=>{out.push(JSON.parse(m.data).a)}; e.onmessage=f; e.addEventListener('x',f); e.onerror=()=>{e.close();ok()}; setTimeout(()=>{e.close();ok()},20000)}); return out.join('')`},
		{name: "sse keys", serve: say("text/event-stream", "data: {\"WORD\":1}\n\n"), js: sse(" ")},
		{name: "sse escaped keys", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			say("text/event-stream", fmt.Sprintf("data: {\"%s\":1}\n\n", unicodeEscaped(word)))(w, r, word)
		}, js: strings.ReplaceAll(sse(""), "out.push(m.data)", "out.push(Object.keys(JSON.parse(m.data))[0])")},
		{name: "sse html escapes", serve: say("text/event-stream", "data: WO&#8203;<i></i>RD\n\n"), js: strings.ReplaceAll(sse(""), "out.push(m.data)", "{const d=document.createElement('div');d.innerHTML=m.data;out.push(d.innerText.replaceAll('\\u200b',''))}")},
		{name: "sse deflate", serve: coded("deflate", zlibbed, "text/event-stream", "data: a\n\ndata: WORD\n\n"), js: sse(" ")},
		{name: "sse raw deflate", serve: coded("deflate", deflated, "text/event-stream", "data: a\n\ndata: WORD\n\n"), js: sse(" ")},
		{name: "sse two codings", serve: coded("gzip, gzip", func(p []byte) []byte { return gzipped(gzipped(p)) }, "text/event-stream", "data: a\n\ndata: WORD\n\n"), js: sse(" ")},
		{name: "sse without end", serve: say("text/event-stream", "data: hello\n\ndata: WORD"), js: fetchText},
		{name: "sse last of types", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			w.Header()["Content-Type"] = []string{"text/plain", "text/event-stream"}
			io.WriteString(w, "data: a\n\ndata: "+word+"\n\n")
		}, js: sse(" ")},
		{name: "sse utf-16 by fetch", serve: coded("", func(p []byte) []byte { return utf16of(string(p)) }, "text/event-stream", "data: hello WORD it is\n\n"), js: fromUTF16},
		{name: "sse gzip in base64", serve: answerWith("text/event-stream", func(word string) string {
			return "data: " + base64.StdEncoding.EncodeToString(gzipped([]byte("hello there is "+word+" here"))) + "\n\n"
		}), js: strings.ReplaceAll(strings.ReplaceAll(sse(""), "e.close();ok()", "e.close();setTimeout(ok,500)"), "e.onmessage=m=>{out.push(m.data)}", "e.onmessage=async m=>{out.push(await new Response(new Blob([Uint8Array.from(atob(m.data),c=>c.charCodeAt(0))]).stream().pipeThrough(new DecompressionStream('gzip'))).text())}")},
		{name: "sse url escapes", serve: answerWith("text/event-stream", func(word string) string { return fmt.Sprintf("data: hello%%20%%%x%s\n\n", word[0], word[1:]) }), js: strings.ReplaceAll(sse(""), "out.push(m.data)", "out.push(decodeURIComponent(m.data))")},
		// WebSocket.
		{name: "ws pong between fragments", serve: sock(false, func(word string) [][]byte {
			return [][]byte{wsFrame(0x01, []byte(word[:2])), wsFrame(0x8A, []byte("pong")), wsFrame(0x89, nil), wsFrame(0x00, []byte(word[2:4])), wsFrame(0x80, []byte(word[4:]))}
		}), js: ws(" ", "")},
		{name: "ws empty fragments", serve: sock(false, func(word string) [][]byte {
			return [][]byte{wsFrame(0x01, nil), wsFrame(0x00, nil), wsFrame(0x00, []byte(word)), wsFrame(0x80, nil)}
		}), js: ws(" ", "")},
		{name: "ws deflate, some not", serve: sock(true, func(word string) [][]byte {
			return [][]byte{wsFrame(0x81, []byte("plain")), wsFrame(0xC1, rawDeflate("hello "+word)), wsFrame(0x81, []byte("plain"))}
		}), js: ws(" ", "")},
		{name: "ws deflate twice", serve: sock(true, func(word string) [][]byte {
			return deflatedMessages(false, "hello "+word[:3], word[3:]+" it is")
		}), js: ws("", "")},
		{name: "ws deflate stored", serve: sock(true, func(word string) [][]byte {
			p := "hello " + word
			return [][]byte{wsFrame(0xC1, append([]byte{0, byte(len(p)), 0, ^byte(len(p)), 0xff}, p...))}
		}), js: ws(" ", "")},
		{name: "ws deflate final block", serve: sock(true, func(word string) [][]byte {
			return [][]byte{wsFrame(0xC1, append(deflated([]byte("hello "+word)), 0))}
		}), js: ws(" ", "")},
		{name: "ws deflate of binary", serve: sock(true, func(word string) [][]byte { return [][]byte{wsFrame(0xC2, rawDeflate("hello "+word))} }), js: ws(" ", "")},
		{name: "ws json letters", serve: sock(false, func(word string) (all [][]byte) {
			for i, c := range word {
				all = append(all, wsFrame(0x81, fmt.Appendf(nil, `{"seq":%d,"t":"\u%04x"}`, i, c)))
			}
			return all
		}), js: strings.ReplaceAll(ws("", ""), "?m.data:", "?JSON.parse(m.data).t:")},
		{name: "ws json keys", serve: sock(false, lines(`{"WORD":1}`)), js: ws(" ", "")},
		{name: "ws array", serve: sock(false, lines(`["WO","RD"]`)), js: wsJS("JSON.parse(m.data).join('')")},
		{name: "ws nested json", serve: sock(false, lines(`{"a":"{\"b\":\"WO\\u200bRD\"}"}`)), js: wsJS("JSON.parse(JSON.parse(m.data).a).b.replace('\\u200b','')")},
		{name: "ws sockjs", serve: sock(false, lines(`o`, `a["{\"t\":\"WORD\"}"]`)), js: ws(" ", "")},
		{name: "ws stomp", serve: sock(false, lines("MESSAGE\ndestination:/x\n\nhello WORD\x00")), js: ws(" ", "")},
		{name: "ws mqtt", serve: sock(false, octets(func(w string) []byte { return append([]byte{0x30, byte(len(w) + 4), 0, 2, 'a', 'b'}, w...) })), js: ws(" ", "")},
		{name: "ws signalr", serve: sock(false, lines("{\"type\":1,\"target\":\"x\",\"arguments\":[\"WO\\u0052RD\",\"WORD\"]}\x1e")), js: ws(" ", "")},
		{name: "ws xmpp", serve: sock(false, lines("<message><body>WO<b/>RD</body></message>")), js: wsJS("new DOMParser().parseFromString(m.data,'text/xml').documentElement.textContent")},
		{name: "ws base64 pieces", serve: sock(false, func(word string) [][]byte {
			e := func(s string) []byte { return []byte(base64.StdEncoding.EncodeToString([]byte(s))) }
			return [][]byte{wsFrame(0x81, e("there we have "+word[:3])), wsFrame(0x81, e(word[3:]+" and so it goes"))}
		}), js: strings.ReplaceAll(ws("", ""), "?m.data:", "?atob(m.data):")},
		{name: "ws url escapes", serve: sock(false, func(word string) [][]byte {
			return [][]byte{wsFrame(0x81, fmt.Appendf(nil, "a=hello%%20%%%x%s", word[0], word[1:]))}
		}), js: wsJS("decodeURIComponent(m.data)")},
		{name: "ws gzip in base64", serve: sock(false, func(word string) [][]byte {
			return [][]byte{wsFrame(0x81, []byte(base64.StdEncoding.EncodeToString(gzipped([]byte("hello there is "+word)))))}
		}), js: strings.Replace(ws(" ", ""), "s.onmessage=m=>out.push(typeof m.data=='string'?m.data:new TextDecoder().decode(m.data))", "s.onmessage=async m=>out.push(await new Response(new Blob([Uint8Array.from(atob(m.data),c=>c.charCodeAt(0))]).stream().pipeThrough(new DecompressionStream('gzip'))).text())", 1)},
		{name: "ws sent json", serve: sock(false, nil), js: sendWS(`s.send(JSON.stringify({a:{b:[WORDJS]}}))`)},
		{name: "ws sent blob", serve: sock(false, nil), js: sendWS(`s.send(new Blob(['hello '+WORDJS]))`)},
		{name: "ws sent escaped", serve: sock(false, nil), js: strings.Replace(sendWS(`s.send('{"a":"'+[...WORDJS].map(c=>'\\u00'+c.charCodeAt(0).toString(16)).join('')+'"}')`), "t=atob(m.data)", "t=JSON.parse(atob(m.data)).a", 1)},
		{name: "ws subprotocol", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			w.Header().Set("X", word)
			sock(false, lines("hello WORD"))(w, r, word)
		}, js: ws(" ", "")},
		// gRPC-web and other formats with lengths.
		{name: "grpc-web pieces", serve: answerWith("application/grpc-web+proto", func(word string) string {
			pb := func(s string) []byte { return grpcOf(append([]byte{0x0a, byte(len(s))}, s...)) }
			return string(pb("the "+word[:3])) + string(pb(word[3:]+" is"))
		}), js: `const b=new Uint8Array(await (await fetch(u)).arrayBuffer()); let at=0,out=''; while(at<b.length){const n=b[at+4]; out+=new TextDecoder().decode(b.slice(at+7,at+5+n)); at+=5+n} return out`},
		{name: "grpc-web trailers", serve: answerWith("application/grpc-web+proto", func(word string) string {
			p := grpcOf([]byte("grpc-status:13\r\ngrpc-message:" + word + "\r\n"))
			p[0] = 0x80
			return string(p)
		})},
		{name: "grpc-web-text pieces of base64", serve: answerWith("application/grpc-web-text+proto", func(word string) string {
			e := base64.StdEncoding.EncodeToString
			return e(grpcOf([]byte("\x0a\x05hello"))) + e(grpcOf(append([]byte{0x0a, byte(len(word))}, word...)))
		}), js: `return (await (await fetch(u)).text()).replace(/[^=]+=*/g,x=>atob(x))`},
		{name: "grpc-web nested", serve: answerWith("application/grpc-web", func(word string) string {
			in := append([]byte{0x12, byte(len(word))}, word...)
			in = append([]byte{0x08, 0x96, 0x01, 0x1a, byte(len(in))}, in...)
			return string(grpcOf(append([]byte{0x0a, byte(len(in))}, in...)))
		})},
		{name: "grpc-web deflate", serve: answerWith("application/grpc-web", func(word string) string {
			p := grpcOf(zlibbed(append([]byte{0x0a, byte(len(word))}, word...)))
			p[0] = 1
			return string(p)
		}, "Grpc-Encoding", "deflate"), js: `const b=await (await fetch(u)).arrayBuffer(); return await new Response(new Blob([b.slice(5)]).stream().pipeThrough(new DecompressionStream('deflate'))).text()`},
		{name: "grpc-web json", serve: answerWith("application/grpc-web+json", func(word string) string {
			return string(grpcOf([]byte(`{"t":"` + unicodeEscaped(word) + `"}`)))
		}), js: `return JSON.parse((await (await fetch(u)).text()).slice(5)).t`},
		{name: "grpc-web gzip without a coding", serve: answerWith("application/grpc-web", func(word string) string {
			p := grpcOf(gzipped(append([]byte{0x0a, byte(len(word))}, word...)))
			p[0] = 1
			return string(p)
		}), js: `const b=await (await fetch(u)).arrayBuffer(); return await new Response(new Blob([b.slice(5)]).stream().pipeThrough(new DecompressionStream('gzip'))).text()`},
		{name: "connect unary", serve: answerWith("application/proto", func(word string) string { return "\x0a" + string(rune(len(word))) + word })},
		{name: "connect json gzip", serve: answerWith("application/connect+json", func(word string) string {
			p := grpcOf(gzipped([]byte(`{"t":"` + word + `"}`)))
			p[0] = 1
			return string(p)
		}, "Connect-Content-Encoding", "gzip"), js: `const b=await (await fetch(u)).arrayBuffer(); return await new Response(new Blob([b.slice(5)]).stream().pipeThrough(new DecompressionStream('gzip'))).text()`},
		{name: "lengths and text", serve: answerWith("application/octet-stream", func(word string) string { return string(grpcOf([]byte("hello " + word))) })},
		// JSON and streams.
		{name: "json escaped keys", serve: answerWith("application/json", func(word string) string { return `{"` + unicodeEscaped(word) + `":1}` }), js: `return Object.keys(await (await fetch(u)).json())[0]`},
		{name: "json mark", serve: answerWith("application/json", func(word string) string { return "\xef\xbb\xbf{\"a\":\"" + unicodeEscaped(word) + "\"}" }), js: fromJSON},
		{name: "json comment", serve: answerWith("application/json", func(word string) string { return "/* x */ {\"a\":\"" + word + "\"}" })},
		{name: "json guard", serve: answerWith("application/json", func(word string) string { return ")]}',\n{\"a\":\"" + unicodeEscaped(word) + "\"}" }), js: `return JSON.parse((await (await fetch(u)).text()).slice(5)).a`},
		{name: "json for loop", serve: answerWith("application/json", func(word string) string { return "for(;;);{\"a\":\"" + unicodeEscaped(word) + "\"}" }), js: `return JSON.parse((await (await fetch(u)).text()).slice(8)).a`},
		{name: "json while guard", serve: answerWith("text/javascript", func(word string) string { return "while(1);{\"a\":\"" + unicodeEscaped(word) + "\"}" }), js: `return JSON.parse((await (await fetch(u)).text()).slice(9)).a`},
		{name: "json soft hyphens", serve: answerWith("application/json", func(word string) string { return `{"a":"` + word[:3] + `\u00ad` + word[3:] + `"}` }), js: `return (await (await fetch(u)).json()).a.replace('\u00ad','')`},
		{name: "json numbers", serve: answerWith("application/json", func(word string) string {
			return strings.ReplaceAll(fmt.Sprint([]byte(word)), " ", ",")
		}), js: `return String.fromCharCode(...await (await fetch(u)).json())`},
		{name: "json string alone", serve: answerWith("application/json", func(word string) string { return `"` + unicodeEscaped(word) + `"` }), js: `return await (await fetch(u)).json()`},
		{name: "json in json in json", serve: answerWith("application/json", func(word string) string {
			return fmt.Sprintf("{\"a\":%q}", fmt.Sprintf("{\"b\":%q}", `{"c":"`+unicodeEscaped(word)+`"}`))
		}), js: `return JSON.parse(JSON.parse((await (await fetch(u)).json()).a).b).c`},
		{name: "json html entities", serve: answerWith("application/json", func(word string) string { return fmt.Sprintf(`{"a":"\u003cp\u003e&#%d;%s"}`, word[0], word[1:]) }), js: `const d=document.createElement('div');d.innerHTML=(await (await fetch(u)).json()).a;return d.innerText`},
		{name: "json url escapes", serve: answerWith("application/json", func(word string) string { return fmt.Sprintf(`{"a":"%%%x%s"}`, word[0], word[1:]) }), js: `return decodeURIComponent((await (await fetch(u)).json()).a)`},
		{name: "json utf-16", serve: coded("", func(p []byte) []byte { return utf16of(string(p)) }, "application/json", `{"a":"hello WORD it is"}`), js: fromUTF16},
		{name: "json cut off", serve: answerWith("application/json", func(word string) string { return `{"a":["` + word })},
		{name: "ndjson crlf", serve: say("application/x-ndjson", "{\"a\":\"WO\"}\r\n", "{\"a\":\"RD\"}\r\n"), js: `return (await (await fetch(u)).text()).split('\r\n').filter(x=>x).map(x=>JSON.parse(x).a).join('')`},
		{name: "ndjson without an end", serve: say("application/x-ndjson", "{\"a\":\"x\"}\n{\"a\":\"WORD\"}")},
		{name: "ndjson escaped letters", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			var p []string
			for _, c := range word {
				p = append(p, fmt.Sprintf("{\"response\":\"\\u%04x\",\"done\":false}\n", c))
			}
			say("application/x-ndjson", append(p, "{\"done\":true}\n")...)(w, r, word)
		}, js: `return (await (await fetch(u)).text()).split('\n').filter(x=>x).map(x=>JSON.parse(x).response||'').join('')`},
		{name: "ndjson as text", serve: say("text/plain", "{\"a\":\"the WO\"}\n", "{\"a\":\"RD\"}\n"), js: `return (await (await fetch(u)).text()).split('\n').filter(x=>x).map(x=>JSON.parse(x).a).join('')`},
		{name: "ndjson as octets", serve: say("application/octet-stream", "{\"a\":\"the WO\"}\n", "{\"a\":\"RD\"}\n"), js: `return (await (await fetch(u)).text()).split('\n').filter(x=>x).map(x=>JSON.parse(x).a).join('')`},
		{name: "vercel stream", serve: say("text/plain; charset=utf-8", "0:\"the WO\"\n", "0:\"RD\"\n", "d:{}\n"), js: `return (await (await fetch(u)).text()).split('\n').filter(x=>x[0]=='0').map(x=>JSON.parse(x.slice(2))).join('')`},
		{name: "length-prefixed json chunks", serve: say("application/json", "17\n[[\"the WO\"]]\n", "17\n[[\"RD\"]]\n"), js: `return (await (await fetch(u)).text()).match(/\["([\w ]+)"\]/g).map(x=>JSON.parse(x)[0]).join('')`},
		{name: "sse by fetch as text", serve: say("text/plain", "data: {\"t\":\"the WO\"}\n\n", "data: {\"t\":\"RD\"}\n\n"), js: `return (await (await fetch(u)).text()).split('\n').filter(x=>x).map(x=>JSON.parse(x.slice(6)).t).join('')`},
		{name: "jsonp", serve: answerWith("application/javascript", func(word string) string { return `window.cb1&&cb1({"a":"` + unicodeEscaped(word) + `"})` }), js: `return await new Promise(ok=>{window.cb1=x=>ok(x.a);const s=document.createElement('script');s.src=u;s.onerror=()=>ok('E');document.head.append(s);setTimeout(()=>ok('T'),20000)})`, known: "strings of scripts are read with proxy.scripts"},
		{name: "json typed script", serve: answerWith("application/json", func(word string) string { return `window.cb2&&cb2({"a":"` + word + `"})` }), js: `return await (await fetch(u)).text()`},
		{name: "long polling", serve: byQuery(map[string]func(w http.ResponseWriter, r *http.Request, word string){
			"": say("application/json", `{"n":1,"t":"WO"}`), "x&2": say("application/json", `{"n":2,"t":"WORD"}`),
		}), js: `const a=await (await fetch(u)).json(); const b=await (await fetch(u+'&2')).json(); return b.t`},
		{name: "long poll that waits", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", fmt.Sprint(len(word)+8))
			io.WriteString(w, `{"a":"`)
			flush(w)
			time.Sleep(700 * time.Millisecond)
			io.WriteString(w, word+`"}`)
		}, js: fromJSON},
		{name: "blanks first", serve: say("text/html", strings.Repeat(" ", 5000), "<p>hello WO", "RD")},
		{name: "slow letters", serve: say("text/html", "<p>hello ", "WO", "RD", "</p>")},
		{name: "long then slow", serve: say("text/html", strings.Repeat("<p>Lorem ipsum", 2000), "<p>hello WO", "RD ", "</p>")},
		{name: "slow gzip", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Content-Encoding", "gzip")
			p := gzipped([]byte("<p>hello " + word))
			for _, c := range p {
				w.Write([]byte{c})
				flush(w)
				time.Sleep(15 * time.Millisecond)
			}
		}},
		{name: "slow brotli", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Content-Encoding", "br")
			for _, c := range brotlied([]byte("<p>hello " + word)) {
				w.Write([]byte{c})
				flush(w)
				time.Sleep(15 * time.Millisecond)
			}
		}, secure: true},
		// Types and codings that scripts decode.
		{name: "zip by a program", serve: answerWith("application/zip", func(word string) string { return zipWith("a.txt", "hello "+word) }), js: `const b=await (await fetch(u)).arrayBuffer(); const v=new DataView(b); const n=v.getUint16(26,true); const s=b.slice(30+n+v.getUint16(28,true)); const r=new Response(new Blob([s]).stream().pipeThrough(new DecompressionStream('deflate-raw'))); const rd=r.body.getReader(); const q=await rd.read(); return new TextDecoder().decode(q.value)`},
		{name: "raw deflate in octets", serve: coded("", deflated, "application/octet-stream", "hello WORD it is"), js: `return await new Response((await fetch(u)).body.pipeThrough(new DecompressionStream('deflate-raw'))).text()`, known: "nothing marks raw deflate"},
		{name: "gzip as a picture", serve: coded("", gzipped, "image/png", "hello WORD it is"), js: `return await new Response((await fetch(u)).body.pipeThrough(new DecompressionStream('gzip'))).text()`},
		{name: "gzip as text", serve: coded("", gzipped, "text/plain", "hello WORD it is"), js: `return await new Response((await fetch(u)).body.pipeThrough(new DecompressionStream('gzip'))).text()`},
		{name: "gzip in gzip", serve: coded("gzip", func(p []byte) []byte { return gzipped(gzipped(p)) }, "text/plain", "hello WORD it is"), js: `return await new Response((await fetch(u)).body.pipeThrough(new DecompressionStream('gzip'))).text()`},
		{name: "base64 of lines", serve: answerWith("text/plain", func(word string) string {
			s := base64.StdEncoding.EncodeToString([]byte(lorem[:100] + word + " it is"))
			return s[:76] + "\r\n" + s[76:]
		}), js: `return atob((await (await fetch(u)).text()).replace('\r\n',''))`},
		{name: "base64 for URLs", serve: answerWith("text/plain", func(word string) string {
			return base64.RawURLEncoding.EncodeToString([]byte("hello?>?> there is " + word + " ?>?>"))
		}), js: `return atob((await (await fetch(u)).text()).replaceAll('-','+').replaceAll('_','/'))`},
		{name: "hex", serve: answerWith("text/plain", func(word string) string { return fmt.Sprintf("%x", "hello there is "+word) }), js: `return String.fromCharCode(...(await (await fetch(u)).text()).match(/../g).map(x=>parseInt(x,16)))`, known: "hexadecimal is no text"},
		{name: "data URL in json", serve: answerWith("application/json", func(word string) string {
			return `{"a":"data:text/plain;base64,` + base64.StdEncoding.EncodeToString([]byte("hello there is "+word)) + `"}`
		}), js: `return await (await fetch((await (await fetch(u)).json()).a)).text()`},
		{name: "escapes as text", serve: answerWith("text/plain", func(word string) string { return `x = "` + unicodeEscaped(word) + `"` }), js: `return JSON.parse((await (await fetch(u)).text()).slice(4))`, known: "escapes of a script that a program reads as text"},
		{name: "plist", serve: answerWith("application/x-plist", func(word string) string { return "<plist><string>" + word + "</string></plist>" })},
		{name: "yaml", serve: answerWith("application/yaml", func(word string) string { return "a: " + word })},
		{name: "toml", serve: answerWith("application/toml", func(word string) string { return "a = \"" + word + "\"" })},
		{name: "bson", serve: answerWith("application/bson", func(word string) string {
			return "\x16\x00\x00\x00\x02a\x00" + string(rune(len(word)+1)) + "\x00\x00\x00" + word + "\x00\x00"
		})},
		{name: "cbor in pieces", serve: answerWith("application/cbor", func(word string) string {
			return "\x7f\x63" + word[:3] + string(rune(0x60|len(word)-3)) + word[3:] + "\xff"
		}), js: `const b=new Uint8Array(await (await fetch(u)).arrayBuffer()); let s='',i=1; while(b[i]!=255){const n=b[i]&31; s+=String.fromCharCode(...b.slice(i+1,i+1+n)); i+=n+1} return s`, known: "CBOR is read without its structure"},
		{name: "m3u8", serve: answerWith("application/vnd.apple.mpegurl", func(word string) string { return "#EXTM3U\n#EXTINF:1,hello " + word + "\nx.ts\n" })},
		{name: "srt", serve: answerWith("application/x-subrip", func(word string) string { return "1\n00:00:00,000 --> 00:00:01,000\n" + word + "\n" })},
		{name: "woff name", serve: answerWith("font/woff2", func(word string) string { return "hello there " + word + " is a font" })},
		{name: "mhtml", serve: answerWith("multipart/related; boundary=b", func(word string) string {
			return "--b\r\nContent-Type: text/html\r\nContent-Transfer-Encoding: base64\r\n\r\n" + base64.StdEncoding.EncodeToString([]byte("<p>hello "+word)) + "\r\n--b--"
		}), js: `return atob((await (await fetch(u)).text()).split('\r\n')[4])`},
		{name: "206 unasked", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("Content-Range", "bytes 5-20/100")
			w.WriteHeader(206)
			io.WriteString(w, "hello "+word)
		}},
		{name: "range of a picture", serve: ranged("image/png", strings.Repeat("Lorem ipsum ", 600)+"WORD it is"), js: `return await (await fetch(u,{headers:{Range:'bytes=7190-'}})).text()`},
		{name: "range from the end", serve: ranged("text/plain", strings.Repeat("Lorem ipsum ", 600)+"WORD it is"), js: `return await (await fetch(u,{headers:{Range:'bytes=-14'}})).text()`},
		{name: "range in letters", serve: ranged("text/plain", "WORD"), js: `let s=''; for(let i=0;i<6;i++) s+=(await (await fetch(u,{headers:{Range:'bytes='+i+'-'+i}})).text())[0]; return s`},
		{name: "if-range", serve: ranged("text/plain", strings.Repeat("Lorem ipsum ", 600)+"WORD it is"), js: `return await (await fetch(u,{headers:{Range:'bytes=7190-','If-Range':'Sun, 09 Sep 2001 01:46:40 GMT'}})).text()`},
		{name: "500 body", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(500)
			io.WriteString(w, `{"error":"`+unicodeEscaped(word)+`"}`)
		}, js: `return (await (await fetch(u)).json()).error`},
		{name: "server timing", serve: raws("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nServer-Timing: a;desc=\"x\"\r\nConnection: close\r\n\r\nhello WORD"), js: fetchText, h1: true},
		{name: "early hints", serve: raws("HTTP/1.1 103 Early Hints\r\nLink: </x>; rel=preload; as=style\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nhello WORD"), js: fetchText, h1: true},
		{name: "chunks with extensions", serve: raws("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n6;a=b\r\nhello \r\n3;c=\"d\"\r\nFIRST\r\n3\r\nLAST\r\n0\r\nX-Y: z\r\n\r\n"), js: fetchText, h1: true},
		{name: "closed by the origin", serve: raws("HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nhello FIRST", "LAST"), js: fetchText, h1: true},
		{name: "mixed replace slowly", serve: say("multipart/x-mixed-replace; boundary=b", "--b\r\nContent-Type: text/plain\r\n\r\nhello\r\n--b\r\n", "Content-Type: text/plain\r\n\r\nhello WO", "RD\r\n--b--\r\n")},
		// The answers of a service worker.
		{name: "sw from a string", serve: worker("addEventListener('install',e=>skipWaiting());addEventListener('activate',e=>e.waitUntil(clients.claim()));addEventListener('fetch',e=>e.respondWith(new Response('<p>hello WORD',{headers:{'Content-Type':'text/html'}})))"), js: sw(""), secure: true, known: "strings of scripts are read with proxy.scripts"},
		{name: "sw from the network", serve: worker("addEventListener('install',e=>skipWaiting());addEventListener('fetch',e=>e.respondWith(fetch(registration.scope.replace('page','data'))))"), js: sw(""), secure: true},
		{name: "sw from a cache", serve: worker("addEventListener('install',e=>{skipWaiting();e.waitUntil(caches.open('a').then(c=>c.add(location.href.replace('sw','data'))))});addEventListener('fetch',e=>e.respondWith(caches.open('a').then(c=>c.match(location.href.replace('sw','data')))))"), js: sw(""), secure: true},
		{name: "sw changes the type", serve: worker("addEventListener('install',e=>skipWaiting());addEventListener('fetch',e=>e.respondWith(fetch(registration.scope.replace('page','data')).then(async r=>new Response((await r.text()),{headers:{'Content-Type':'text/html'}}))))"), js: sw(""), secure: true},
		{name: "cache storage", serve: say("text/html", "<p>hello WORD"), js: `const c=await caches.open('b'); await c.add(u); const t=await (await c.match(u)).text(); await c.delete(u); return t`, secure: true},
		{name: "worker asks", serve: byQuery(map[string]func(w http.ResponseWriter, r *http.Request, word string){
			"": say("text/plain", "hello WORD"), "x&w": say("text/javascript", "onmessage=async e=>postMessage(await (await fetch(e.data)).text())"),
		}), js: `const w=new Worker(u+'&w'); return await new Promise(ok=>{w.onmessage=e=>ok(e.data);w.onerror=()=>ok('E');w.postMessage(u);setTimeout(()=>ok('T'),20000)})`},
		{name: "iframe by script", serve: say("text/html", "<p>hello WO<b>RD</b>"), js: `const f=document.createElement('iframe'); f.src=u; document.body.append(f); await new Promise(ok=>f.onload=ok); return f.contentDocument.body.innerText`},
		{name: "object by script", serve: say("text/html", "<p>hello WO<b>RD</b>"), js: `const f=document.createElement('object'); f.data=u; document.body.append(f); await new Promise(ok=>{f.onload=ok;f.onerror=ok}); return f.contentDocument?f.contentDocument.body.innerText:'E'`},
		{name: "embed by script", serve: say("text/html", "<p>hello WO<b>RD</b>"), js: `const f=document.createElement('embed'); f.src=u; f.type='text/html'; f.name='emb'; document.body.append(f); await new Promise(ok=>{f.onload=ok;setTimeout(ok,3000)}); return f.getSVGDocument?.()?.body?.innerText??window.emb?.document.body.innerText??[...Array(frames.length).keys()].map(i=>{try{return frames[i].document.body.innerText}catch{return ''}}).join(' ')`},
		{name: "svg use", serve: say("image/svg+xml", "<svg xmlns='http://www.w3.org/2000/svg'><g id='a'><text y='20'>WO<tspan>RD</tspan></text></g></svg>"), js: `const r=await (await fetch(u)).text(); return new DOMParser().parseFromString(r,'image/svg+xml').documentElement.textContent`},
		{name: "external xslt", serve: byQuery(map[string]func(w http.ResponseWriter, r *http.Request, word string){
			"x&xsl": say("text/xsl", `<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"><xsl:template match="/"><html><body><p>hello WO<xsl:text>RD</xsl:text></p></body></html></xsl:template></xsl:stylesheet>`),
			"":      say("text/html", "nothing"),
			"x&xml": func(w http.ResponseWriter, r *http.Request, word string) {
				say("text/xml", "<?xml-stylesheet type='text/xsl' href='"+strings.Replace(r.URL.String(), "&xml", "&amp;xsl", 1)+"'?><a/>")(w, r, word)
			},
		}), js: `const f=document.createElement('iframe'); f.src=u+'&xml'; document.body.append(f); await new Promise(ok=>f.onload=ok); return f.contentDocument.documentElement.textContent`},
		{name: "font of a page as css module", serve: say("text/css", "#css::before{content:'hello WORD'}"), js: `const m=await import(u,{with:{type:'css'}}); return [...m.default.cssRules].map(r=>r.cssText).join()`},
		{name: "css import", serve: byQuery(map[string]func(w http.ResponseWriter, r *http.Request, word string){
			"x&in": say("text/css", "#css::before{content:'hello WORD'}"),
			"": func(w http.ResponseWriter, r *http.Request, word string) {
				say("text/css", "@import '"+r.URL.Path+"?x&in';")(w, r, word)
			},
		}), js: `return await new Promise(ok=>{const l=document.createElement('link');l.rel='stylesheet';l.href=u;l.onload=()=>ok([...l.sheet.cssRules].map(r=>r.styleSheet?[...r.styleSheet.cssRules].map(x=>x.cssText).join():r.cssText).join());l.onerror=()=>ok('E');document.head.append(l)})`},
		{name: "css custom property", serve: say("text/css", "#css{--x: hello WORD}"), js: `return await new Promise(ok=>{const l=document.createElement('link');l.rel='stylesheet';l.href=u;l.onload=()=>ok([...l.sheet.cssRules].map(r=>r.cssText).join());l.onerror=()=>ok('E');document.head.append(l)})`, known: "text of style sheets without quotes"},
		// Messages of clients.
		{name: "post two fields of a form", serve: echo, js: post("application/x-www-form-urlencoded", "'a=1&q='+WORDJS+'&b=2'")},
		{name: "post form with plus", serve: echo, js: post("application/x-www-form-urlencoded;charset=windows-1251", "'q=hello+'+WORDJS")},
		{name: "post form name", serve: echo, js: post("application/x-www-form-urlencoded", "WORDJS+'=1'")},
		{name: "post form semicolon", serve: echo, js: post("application/x-www-form-urlencoded", "'a=1;q='+WORDJS")},
		{name: "post form of another type", serve: echo, js: strings.Replace(post("text/plain", "'q=%20'+[...WORDJS].map(c=>'%'+c.charCodeAt(0).toString(16)).join('')"), "return new TextDecoder().decode", "return decodeURIComponent(new TextDecoder().decode", 1) + ")"},
		{name: "post text/plain form", serve: echo, js: post("text/plain", "'q='+WORDJS+'\\r\\nb=2\\r\\n'")},
		{name: "post json of numbers as keys", serve: echo, js: post("application/json", "JSON.stringify({[WORDJS]:1})")},
		{name: "post json prompt", serve: echo, js: post("application/json", "JSON.stringify({model:'x',messages:[{role:'user',content:[{type:'text',text:'tell me of '+WORDJS}]}],stream:true})")},
		{name: "post json in json", serve: echo, js: post("application/json", "JSON.stringify({a:JSON.stringify({b:JSON.stringify({c:WORDJS})})})")},
		{name: "post json base64", serve: echo, js: `const r=await fetch(u,{method:'POST',headers:{'Content-Type':'application/json'},body:JSON.stringify({a:btoa('hello there is '+WORDJS)})});const t=await r.text(); if(!r.ok||!/^[0-9a-f]*$/.test(t)) return 'E'+r.status; return atob(JSON.parse(new TextDecoder().decode(new Uint8Array(t.match(/../g).map(x=>parseInt(x,16))))).a)`},
		{name: "post ndjson", serve: echo, js: post("application/x-ndjson", "'{\"a\":1}\\n{\"a\":\"'+WORDJS+'\"}\\n'")},
		{name: "post graphql", serve: echo, js: post("application/graphql", "'{a(b:\"'+WORDJS+'\")}'")},
		{name: "post xml", serve: echo, js: post("text/xml", "'<a>'+WORDJS.slice(0,3)+'<b/>'+WORDJS.slice(3)+' '+WORDJS+'</a>'")},
		{name: "post html", serve: echo, js: post("text/html", "'<p>'+WORDJS")},
		{name: "post csv", serve: echo, js: post("text/csv", "'a,b\\n1,'+WORDJS")},
		{name: "post unknown type", serve: echo, js: post("application/x-thing", "'hello '+WORDJS")},
		{name: "post font type", serve: echo, js: post("font/woff2", "'hello '+WORDJS")},
		{name: "post video type", serve: echo, js: post("video/mp4", "'hello '+WORDJS")},
		{name: "post zip type", serve: echo, js: post("application/zip", "'hello '+WORDJS")},
		{name: "post bad type", serve: echo, js: post("x", "'hello '+WORDJS")},
		{name: "post utf-16", serve: echo, js: `const s='hello '+WORDJS+' it is'; const a=new Uint16Array([...s].map(c=>c.charCodeAt(0))); const r=await fetch(u,{method:'POST',headers:{'Content-Type':'application/octet-stream'},body:a});const t=await r.text(); if(!r.ok||!/^[0-9a-f]*$/.test(t)) return 'E'+r.status; return new TextDecoder('utf-16le').decode(new Uint8Array(t.match(/../g).map(x=>parseInt(x,16))))`},
		{name: "post gzip json", serve: echo, js: compressed("gzip", "'Content-Encoding':'gzip',", "application/json")},
		{name: "post deflate", serve: echo, js: compressed("deflate", "'Content-Encoding':'deflate',", "text/plain")},
		{name: "post raw deflate", serve: echo, js: compressed("deflate-raw", "'Content-Encoding':'deflate',", "text/plain")},
		{name: "post raw deflate unlabelled", serve: echo, js: compressed("deflate-raw", "", "application/octet-stream"), known: "compressed by itself without a mark"},
		{name: "post x-gzip", serve: echo, js: compressed("gzip", "'Content-Encoding':'x-gzip',", "text/plain")},
		{name: "post gzip as a picture", serve: echo, js: compressed("gzip", "", "image/png")},
		{name: "post gzip with a wrong coding", serve: echo, js: compressed("gzip", "'Content-Encoding':'br',", "text/plain")},
		{name: "post gzip with an unknown coding", serve: echo, js: compressed("gzip", "'Content-Encoding':'foo',", "text/plain")},
		{name: "post gzip with identity", serve: echo, js: compressed("gzip", "'Content-Encoding':'identity',", "text/plain")},
		{name: "post multipart odd boundary", serve: echo, js: strings.ReplaceAll(strings.ReplaceAll(multi(`'--B\nContent-Disposition: form-data; name=q\n\nhello WORD\n--B--\n'`), "boundary=B", `boundary="b c:\\'+'d"`), "--B", "--b c:d")},
		{name: "post multipart without a boundary", serve: echo, js: strings.ReplaceAll(multi(`'--B\nContent-Disposition: form-data; name=q\n\nhello WORD\n--B--\n'`), "; boundary=B", "")},
		{name: "post multipart wrong boundary", serve: echo, js: strings.ReplaceAll(multi(`'--B\nContent-Disposition: form-data; name=q\n\nhello WORD\n--B--\n'`), "boundary=B", "boundary=C")},
		{name: "post multipart preamble", serve: echo, js: multi(`'hello WORD\n--B\nContent-Disposition: form-data; name=q\n\nx\n--B--\n'`)},
		{name: "post multipart epilogue", serve: echo, js: multi(`'--B\nContent-Disposition: form-data; name=q\n\nx\n--B--\nhello WORD'`)},
		{name: "post multipart not ended", serve: echo, js: multi(`'--B\nContent-Disposition: form-data; name=q\n\nhello WORD'`)},
		{name: "post multipart line feeds", serve: echo, js: strings.ReplaceAll(multi(`'--B\nContent-Disposition: form-data; name=q\n\nhello WORD\n--B--\n'`), `.replaceAll('\n','\r\n')`, "")},
		{name: "post multipart blanks", serve: echo, js: multi(`'--B  \nContent-Disposition: form-data; name=q\n\nhello WORD\n--B--  \n'`)},
		{name: "post multipart base64", serve: echo, js: `const r=await fetch(u,{method:'POST',headers:{'Content-Type':'multipart/form-data; boundary=B'},body:'--B\r\nContent-Disposition: form-data; name=q\r\nContent-Transfer-Encoding: base64\r\n\r\n'+btoa('hello there is '+WORDJS)+'\r\n--B--\r\n'});const t=await r.text(); if(!r.ok||!/^[0-9a-f]*$/.test(t)) return 'E'+r.status; return atob(new TextDecoder().decode(new Uint8Array(t.match(/../g).map(x=>parseInt(x,16)))).split('\r\n')[4])`},
		{name: "post multipart quoted", serve: echo, js: `const q='=' + WORDJS.charCodeAt(0).toString(16).toUpperCase()+WORDJS.slice(1); const r=await fetch(u,{method:'POST',headers:{'Content-Type':'multipart/form-data; boundary=B'},body:'--B\r\nContent-Disposition: form-data; name=q\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n'+q+'\r\n--B--\r\n'});const t=await r.text(); if(!r.ok||!/^[0-9a-f]*$/.test(t)) return 'E'+r.status; return decodeURIComponent(new TextDecoder().decode(new Uint8Array(t.match(/../g).map(x=>parseInt(x,16)))).split('\r\n')[4].replaceAll('=','%'))`},
		{name: "post multipart nested", serve: echo, js: multi(`'--B\nContent-Disposition: form-data; name=q\nContent-Type: multipart/mixed; boundary=C\n\n--C\nContent-Disposition: file; filename=a.txt\n\nhello WORD\n--C--\n--B--\n'`)},
		{name: "post multipart file name, RFC 5987", serve: echo, js: strings.Replace(multi(`'--B\nContent-Disposition: form-data; name=q; filename*=utf-8\'\'HEX.txt\n\nx\n--B--\n'.replace('HEX',[...WORDJS].map(c=>'%'+c.charCodeAt(0).toString(16)).join(''))`), "return new TextDecoder().decode", "return decodeURIComponent(new TextDecoder().decode", 1) + ")"},
		{name: "post multipart file name, escaped quotes", serve: echo, js: multi(`'--B\nContent-Disposition: form-data; name="a"; filename="x\\"y WORD.txt"\n\nx\n--B--\n'`)},
		{name: "post multipart file name, percent", serve: echo, js: multi(`'--B\nContent-Disposition: form-data; name="a"; filename="x%22 WORD.txt"\n\nx\n--B--\n'`)},
		{name: "post multipart file name, no quotes", serve: echo, js: multi(`'--B\nContent-Disposition: form-data; name=a; filename=WORD file.txt\n\nx\n--B--\n'`)},
		{name: "post multipart file name, single quotes", serve: echo, js: multi(`'--B\nContent-Disposition: form-data; name=\'a\'; filename=\'x WORD.txt\'\n\nx\n--B--\n'`)},
		{name: "post multipart file name, twice", serve: echo, js: multi(`'--B\nContent-Disposition: form-data; name=a; filename=a.txt; filename="WORD.txt"\n\nx\n--B--\n'`)},
		{name: "post multipart disposition of another case", serve: echo, js: multi(`'--B\ncontent-disposition:FORM-DATA;NAME="WORD"\n\nx\n--B--\n'`)},
		{name: "post multipart folded", serve: echo, js: multi(`'--B\nContent-Disposition: form-data;\n name="a";\n filename="WORD.txt"\n\nx\n--B--\n'`)},
		{name: "post multipart no disposition", serve: echo, js: multi(`'--B\n\nhello WORD\n--B--\n'`)},
		{name: "post multipart other fields", serve: echo, js: multi(`'--B\nContent-Disposition: form-data; name=a\nX-Note: WORD\n\nx\n--B--\n'`)},
		{name: "post multipart png", serve: echo, js: multi(`'--B\nContent-Disposition: form-data; name=a; filename=a.png\nContent-Type: image/png\n\nhello WORD\n--B--\n'`)},
		{name: "post multipart html", serve: echo, js: multi(`'--B\nContent-Disposition: form-data; name=a; filename=a.html\nContent-Type: text/html\n\n<p>hello <i></i>WORD\n--B--\n'`)},
		{name: "post multipart json", serve: echo, js: multi(`'--B\nContent-Disposition: form-data; name=a\nContent-Type: application/json\n\n{"a":"WORD"}\n--B--\n'`)},
		{name: "post multipart many parts", serve: echo, js: multi(`'--B\nContent-Disposition: form-data; name=a\n\nx\n'.repeat(1500)+'--B\nContent-Disposition: form-data; name=a\n\nhello WORD\n--B--\n'`), known: "more than 1000 parts are a finding"},
		{name: "post multipart gzip part", serve: echo, js: `const z=new Uint8Array(await new Response(new Blob(['hello there is '+WORDJS]).stream().pipeThrough(new CompressionStream('gzip'))).arrayBuffer());const f=new FormData();f.append('q',new Blob([z]),'a.gz');const r=await fetch(u,{method:'POST',body:f});const t=await r.text(); if(!r.ok||!/^[0-9a-f]*$/.test(t)) return 'E'+r.status; const b=new Uint8Array(t.match(/../g).map(x=>parseInt(x,16))); let i=0; while(!(b[i]==31&&b[i+1]==139))i++; return await new Response(new Blob([b.slice(i,i+z.length)]).stream().pipeThrough(new DecompressionStream('gzip'))).text()`},
		{name: "post multipart mixed type", serve: echo, js: strings.Replace(multi(`'--B\nContent-Type: text/plain\n\nhello WORD\n--B--\n'`), "multipart/form-data", "multipart/mixed", 1)},
		{name: "post multipart related", serve: echo, js: strings.Replace(multi(`'--B\nContent-Type: application/json\n\n{"name":"x"}\n--B\nContent-Type: text/plain\n\nhello WORD\n--B--\n'`), "multipart/form-data", "multipart/related", 1)},
		{name: "post octets that are multipart", serve: echo, js: strings.Replace(multi(`'--B\nContent-Disposition: form-data; name=q\n\nhello WORD\n--B--\n'`), "multipart/form-data; boundary=B", "application/octet-stream", 1)},
		{name: "post large", serve: echo, js: post("text/plain", "'Lorem ipsum '.repeat(300000)+WORDJS") + ".slice(-100)"},
		{name: "post stream", serve: echo, js: `const s=new ReadableStream({async start(c){const e=new TextEncoder();c.enqueue(e.encode('hello '+WORDJS.slice(0,3)));await new Promise(ok=>setTimeout(ok,300));c.enqueue(e.encode(WORDJS.slice(3)+' it is'));c.close()}});const r=await fetch(u,{method:'POST',duplex:'half',headers:{'Content-Type':'text/plain'},body:s})` + unhex, h2: true},
		{name: "form with accept-charset", serve: echo, js: `const f=document.createElement('form');f.method='post';f.acceptCharset='utf-16be';f.action=u;f.innerHTML='<input name=q>';f.q.value='hello '+WORDJS;const n=document.createElement('iframe');n.name='fr'+Math.random();f.target=n.name;document.body.append(n,f);f.submit();await new Promise(ok=>n.onload=ok);await new Promise(ok=>setTimeout(ok,200));const t=n.contentDocument?.body?.innerText||'';if(!/^[0-9a-f]+$/.test(t))return 'E';return new TextDecoder().decode(new Uint8Array(t.match(/../g).map(x=>parseInt(x,16))))`, known: "octets are not shown in frames"},
		{name: "url of a get", serve: func(w http.ResponseWriter, r *http.Request, word string) {
			w.Header().Set("Content-Type", "text/plain")
			fmt.Fprintf(w, "%x", r.URL.RawQuery)
		}, js: `const t=await (await fetch(u+'&q='+WORDJS)).text(); if(!/^[0-9a-f]*$/.test(t)) return 'E'; return new TextDecoder().decode(new Uint8Array(t.match(/../g).map(x=>parseInt(x,16))))`, known: "URLs are matched by rules of their own"},
	}
}

func TestMoreOfWhatScriptsReadAndSendIsInspected(t *testing.T) {
	t.Parallel()
	inspectTrials(t, moreTrials())
}
