package capture

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	quicgo "github.com/quic-go/quic-go"
)

// talk makes of lines that begin with "c: " and "s: " what the sides say.
func talk(lines string) (all []said) {
	for line := range strings.SplitSeq(lines, "\n") {
		who, text, _ := strings.Cut(line, ": ")
		all = append(all, said{who == "s", text + "\r\n"})
	}
	return all
}

const handedOver = `s: 220 mail.example ESMTP
c: EHLO pc.example
s: 250-mail.example
s: 250 OK
c: MAIL FROM:<a@a.example> SIZE=9
s: 250 OK
c: RCPT TO:<b@b.example>
s: 250 OK
c: RCPT TO:<c@b.example>
s: 250 OK
c: DATA
s: 354 Go on
c: From: a@a.example
c: To: b@b.example, c@b.example
c: Subject: News
c: Content-Type: text/plain; name=news.txt
c: 
c: See http://c.example/x
c: ..dotted
c: .
s: 250 Taken
c: QUIT
s: 221 Bye`

// Rules see mails as they are handed over.
func TestRulesSeeMails(t *testing.T) {
	without := func(line string) string { return strings.Replace(handedOver, line+"\n", "", 1) }
	for options, x := range map[string]struct{ yes, no string }{
		`smtp.helo; content:"pc.example"; bsize:10;`:                     {handedOver, without("c: EHLO pc.example")},
		`smtp.mail_from; content:"<a@a.example>"; startswith; endswith;`: {handedOver, without("c: MAIL FROM:<a@a.example> SIZE=9")},
		`smtp.rcpt_to; content:"c@b";`:                                   {handedOver, without("c: RCPT TO:<c@b.example>")},
		`email.from; content:"a@a.example"; bsize:11;`:                   {handedOver, without("c: From: a@a.example")},
		`email.subject; content:"News";`:                                 {handedOver, without("c: Subject: News")},
		`email.to; content:"c@b";`:                                       {handedOver, without("c: To: b@b.example, c@b.example")},
		`email.cc; content:"b";`:                                         {strings.Replace(handedOver, "To: b", "Cc: b", 1), handedOver},
		`email.url; content:"c.example/x";`:                              {without("c: Content-Type: text/plain; name=news.txt"), handedOver},
		`file.data; content:".dotted"; content:!"..dotted";`:             {handedOver, without("c: Content-Type: text/plain; name=news.txt")},
		`file.name; content:"news.txt"; bsize:8;`:                        {handedOver, without("c: Content-Type: text/plain; name=news.txt")},
		`fileext:"txt";`:                                                 {handedOver, strings.Replace(handedOver, "news.txt", "news.pdf", 1)},
		`email.date; absent;`:                                            {handedOver, strings.Replace(handedOver, "c: From", "c: Date: x\nc: From", 1)},
		`email.received; content:"two";`:                                 {strings.Replace(handedOver, "c: From", "c: Received: one\nc: Received: two\nc: From", 1), handedOver},
		`app-layer-event:smtp.data_command_rejected;`:                    {"s: 220 a\nc: EHLO b\ns: 250 OK\nc: DATA\ns: 503 No", handedOver},
		`app-layer-event:smtp.tls_rejected;`:                             {"s: 220 a\nc: EHLO b\ns: 250 OK\nc: STARTTLS\ns: 454 No", handedOver},
		`app-layer-event:smtp.invalid_reply;`:                            {"s: 220 a\nc: EHLO b\ns: what", handedOver},
		`app-layer-event:smtp.unable_to_match_reply_with_request;`:       {"s: 220 a\nc: EHLO b\ns: 250 OK\ns: 250 OK", handedOver},
		`app-layer-event:smtp.max_command_line_len_exceeded;`:            {"s: 220 a\nc: EHLO b\ns: 250 OK\nc: NOOP " + strings.Repeat("x", 5000), handedOver},
	} {
		rules := "alert smtp any any -> any any (" + options + " sid:1;)"
		for text, want := range map[string]bool{x.yes: true, x.no: false} {
			for _, size := range []int{7, 1460} {
				r := newRecording()
				r.tcp(40000, 25, size, talk(text)...)
				sids, _ := r.found(t, Config{}, rules)
				if got := slices.Equal(sids, []int{1}); got != want {
					t.Errorf("%s in pieces of %d matches %v, want %v, in\n%.600s", options, size, got, want, text)
				}
			}
		}
	}
	r := newRecording()
	r.tcp(40000, 25, 1460, talk(handedOver)...)
	_, records := r.found(t, Config{}, `alert smtp any any -> any any (smtp.helo; content:"never"; sid:1;)`)
	if len(records["smtp"]) != 1 || len(records["fileinfo"]) != 1 {
		t.Fatalf("%d records of mails and %d of files, want one each", len(records["smtp"]), len(records["fileinfo"]))
	}
	for path, want := range map[string]any{"smtp.helo": "pc.example", "smtp.rcpt_to[1]": "<c@b.example>", "email.to[1]": "c@b.example", "email.attachment[0]": "news.txt", "email.status": "PARSE_DONE"} {
		if got, _ := field(records["smtp"][0], path); got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
}

// Rules see files that FTP hands over, and the commands that announce them.
func TestRulesSeeTransfers(t *testing.T) {
	const passive = "s: 220 ready\nc: USER anna\ns: 331 Password\nc: PASS secret\ns: 230 In\nc: PASV\ns: 227 Entering (192,0,2,80,200,10)\nc: RETR dir/cat.txt\ns: 150 Opening\ns: 226 Done\nc: QUIT\ns: 221 Bye"
	extended := strings.Replace(strings.Replace(passive, "PASV", "EPSV", 1), "227 Entering (192,0,2,80,200,10)", "229 Entering (|||51210|)", 1)
	stored := strings.Replace(passive, "RETR", "STOR", 1)
	for options, x := range map[string]struct {
		proto, text string
		from        bool // the server sends the file
		want        bool
	}{
		`ftp.command; content:"RETR";`:                                      {"ftp", passive, true, true},
		`ftp.command; content:"STOR";`:                                      {"ftp", passive, true, false},
		`ftp.command_data; content:"anna"; bsize:4;`:                        {"ftp", passive, true, true},
		`ftp.command; content:"QUIT"; ftp.command_data; absent;`:            {"ftp", passive, true, true},
		`ftp.dynamic_port:51210;`:                                           {"ftp", passive, true, true},
		`ftp.dynamic_port:>51210;`:                                          {"ftp", passive, true, false},
		`ftp.mode:passive;`:                                                 {"ftp", passive, true, true},
		`ftp.mode:active;`:                                                  {"ftp", passive, true, false},
		`ftp.reply_received:no;`:                                            {"ftp", strings.TrimSuffix(passive, "\ns: 221 Bye"), true, true},
		`file.data; content:"purr";`:                                        {"ftp-data", passive, true, true},
		`file.data; content:"purr"; file.name; content:"cat.txt"; bsize:7;`: {"ftp-data", extended, true, true},
		`ftpdata_command:retr;`:                                             {"ftp-data", passive, true, true},
		`ftpdata_command:stor;`:                                             {"ftp-data", stored, false, true},
		`ftpdata_command:stor; filename:"cat";`:                             {"ftp-data", passive, true, false},
		`filesize:4;`:                                                       {"ftp-data", passive, true, true},
	} {
		r := newRecording()
		r.tcp(40000, 21, 1460, talk(x.text)...)
		r.tcp(40001, 51210, 1460, said{x.from, "purr"})
		sids, _ := r.found(t, Config{}, "alert "+x.proto+" any any -> any any ("+options+" sid:1;)")
		if got := slices.Equal(sids, []int{1}); got != x.want {
			t.Errorf("%s matches %v, want %v", options, got, x.want)
		}
	}
	r := newRecording()
	r.tcp(40000, 21, 1460, talk(passive)...)
	sids, _ := r.found(t, Config{}, `alert ftp any any -> any any (ftp.reply; content:"Opening"; sid:1;)
alert ftp any any -> any any (ftp.completion_code; content:"226"; sid:2;)
alert ftp any any -> any any (ftp.reply; content:"150"; sid:3;)`)
	if !slices.Equal(sids, []int{1, 2}) {
		t.Errorf("the replies match %v, want 1 and 2", sids)
	}
}

func TestRulesSeeGreetingsOfSSH(t *testing.T) {
	list := func(names string) string {
		return string(binary.BigEndian.AppendUint32(nil, uint32(len(names)))) + names
	}
	exchange := func(side string) string {
		body := "\x14" + strings.Repeat("\x00", 16)
		for i := range 10 {
			body += list(fmt.Sprintf("%s%d", side, i))
		}
		body += "\x00\x00\x00\x00\x00"
		return string(binary.BigEndian.AppendUint32(nil, uint32(len(body)+5))) + "\x04" + body + "pad!"
	}
	for options, want := range map[string]bool{
		`ssh.proto; content:"2.0"; bsize:3;`:                          true,
		`ssh.proto; content:"1.99";`:                                  false,
		`ssh.software; content:"OpenSSH_9.2"; bsize:11;`:              true,
		`ssh.software; content:"dropbear"; flow:to_client;`:           true,
		`ssh.software; content:"dropbear"; flow:to_server;`:           false,
		`ssh.protoversion:2_compat;`:                                  true,
		`ssh.protoversion:1.99;`:                                      false,
		`ssh.hassh.string; content:"c0|3b|c2|3b|c4|3b|c6"; bsize:11;`: true,
		`ssh.hassh.server.string; content:"s0|3b|s3|3b|s5|3b|s7";`:    true,
		`ssh.hassh; bsize:32;`:                                        true,
		`ssh.hassh.server; content:"0000";`:                           false,
	} {
		for _, size := range []int{5, 1460} {
			r := newRecording()
			r.tcp(40000, 22, size, client("SSH-2.0-OpenSSH_9.2 Debian\r\n"), server("SSH-2.0-dropbear\r\n"), client(exchange("c")), server(exchange("s")))
			sids, _ := r.found(t, Config{}, "alert ssh any any -> any any ("+options+" sid:1;)")
			if got := slices.Equal(sids, []int{1}); got != want {
				t.Errorf("%s in pieces of %d matches %v, want %v", options, size, got, want)
			}
		}
	}
}

// firstDatagrams returns what a client of QUIC sends first.
func firstDatagrams(t *testing.T, version quicgo.Version, name string) (all []string) {
	t.Helper()
	in, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		_, _ = quicgo.DialAddr(ctx, in.LocalAddr().String(), &tls.Config{ServerName: name, NextProtos: []string{"h3"}}, &quicgo.Config{Versions: []quicgo.Version{version}})
	}()
	b := make([]byte, 2000)
	for range 2 { // the hello may need two, and is sent again if not
		n, _, err := in.ReadFrom(b)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(b[:n]))
	}
	return all
}

func TestRulesSeeHellosOfQUIC(t *testing.T) {
	for version, shown := range map[quicgo.Version]string{quicgo.Version1: "1", quicgo.Version2: "v2"} {
		sent := firstDatagrams(t, version, "shop.example")
		for options, want := range map[string]bool{
			`quic.sni; content:"shop.example"; bsize:12;`:     true,
			`quic.sni; content:"other";`:                      false,
			`tls.sni; content:"shop.example";`:                true,
			`quic.version; content:"|00 00 00 01|"; bsize:4;`: version == quicgo.Version1,
			`quic.version; content:"|6b 33 43 cf|";`:          version == quicgo.Version2,
			`ja3.string; content:"771,"; startswith;`:         true,
			`ja4.hash; content:"q13d"; startswith;`:           true,
			`tls.alpn; content:"h3"; bsize:2;`:                true,
			`quic.ua; absent;`:                                true,
			`app-layer-event:quic.failed_decrypt;`:            false,
		} {
			r := newRecording()
			for _, d := range sent {
				r.udp(false, 40000, 443, d)
			}
			sids, records := r.found(t, Config{}, "alert quic any any -> any any ("+options+" sid:1;)")
			if got := slices.Equal(sids, []int{1}); got != want {
				t.Errorf("version %s: %s matches %v, want %v", shown, options, got, want)
			}
			if len(records["quic"]) != 1 {
				t.Fatalf("version %s: %d records", shown, len(records["quic"]))
			}
			for path, want := range map[string]any{"quic.version": shown, "quic.sni": "shop.example"} {
				if got, _ := field(records["quic"][0], path); got != want {
					t.Errorf("version %s: %s is %v, want %v", shown, path, got, want)
				}
			}
		}
	}
}
