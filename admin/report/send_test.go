//go:build !small

package report

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"mime/multipart"
	"net"
	stdmail "net/mail"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"shuultuur/admin/mail"
	"shuultuur/lib/setting"
)

// office is a mail server on this machine, which hands over the mail that it accepts.
func office(t *testing.T) (addr string, got chan string) {
	t.Helper()
	addr, got, _ = busyOffice(t)
	return addr, got
}

// busyOffice also returns whether busy@ has to wait.
func busyOffice(t *testing.T) (addr string, got chan string, busy *atomic.Bool) {
	t.Helper()
	busy = new(atomic.Bool)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got, ended := make(chan string, 9), make(chan bool)
	t.Cleanup(func() { l.Close(); <-ended })
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			take(c, got, busy)
		}
	}()
	return l.Addr().String(), got, busy
}

// take speaks SMTP with one client.
func take(c net.Conn, got chan<- string, busy *atomic.Bool) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	in := bufio.NewScanner(c)
	fmt.Fprint(c, "220 ready\r\n")
	for in.Scan() {
		word, rest, _ := strings.Cut(strings.ToUpper(in.Text()), " ")
		if strings.Contains(rest, "TO:<NOBODY@") {
			word = ""
		}
		if strings.Contains(rest, "TO:<BUSY@") && busy.Load() {
			word = "LATER"
		}
		switch word {
		case "":
			fmt.Fprint(c, "550 there is nobody of that name\r\n")
		case "LATER":
			fmt.Fprint(c, "451 come back later\r\n")
		case "DATA":
			fmt.Fprint(c, "354 write\r\n")
			var text strings.Builder
			for in.Scan() && in.Text() != "." {
				text.WriteString(strings.TrimPrefix(in.Text(), ".") + "\r\n")
			}
			got <- text.String()
			fmt.Fprint(c, "250 taken\r\n")
		case "QUIT":
			fmt.Fprint(c, "221 bye\r\n")
			return
		default:
			fmt.Fprint(c, "250 good\r\n")
		}
	}
}

// TestReportsAreMailedOnTheirSchedule: each report goes once to the named people, with a
// person's events as PDF and CSV. A report that the mail server refuses is sent later.
func TestReportsAreMailedOnTheirSchedule(t *testing.T) {
	addr, got := office(t)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := closed.Addr().String()
	closed.Close()
	day := time.Date(2026, 11, 23, 0, 0, 0, 0, time.Local) // a Monday
	var events Source = sample(day.Add(8 * time.Hour))
	sending := func(office string) *Sending {
		s, err := mail.New(mail.Config{Server: "smtp://" + office, From: "filter@school.example"})
		if err != nil {
			t.Fatal(err)
		}
		x := &Sending{Mail: s, File: filepath.Join(t.TempDir(), "sent.json"), Source: func() Source { return events }, Log: slog.New(slog.DiscardHandler),
			Groups: func(_ netip.Addr, user string) []string {
				if user == "=anna" {
					return []string{"7a"}
				}
				return nil
			},
			Schedules: []Schedule{{Every: "day", Group: "7a", Mail: setting.OneOrMore[string]{"Tess <tess@school.example>"}}, {Every: "week", At: "06:00", Mail: setting.OneOrMore[string]{"head@school.example"}}}}
		if err := x.Check(); err != nil {
			t.Fatal(err)
		}
		return x
	}
	x := sending(addr)
	send := func(x *Sending, at time.Time, want int) (all []string) {
		t.Helper()
		if err := x.send(t.Context(), at); err != nil {
			t.Fatal(err)
		}
		for len(got) > 0 {
			all = append(all, <-got)
		}
		if len(all) != want {
			t.Fatalf("at %s %d reports were sent, want %d", at, len(all), want)
		}
		return all
	}
	send(x, day.Add(12*time.Hour), 0) // the settings are new
	send(x, day.Add(30*time.Hour), 0) // 06:00: not yet
	daily := send(x, day.Add(31*time.Hour), 1)
	send(x, day.Add(31*time.Hour+time.Minute), 0)
	send(x, day.Add(40*time.Hour), 0)
	reads(t, daily[0], "tess@school.example", "report-2026-11-23", "anna", "Бат-Эрдэнэ")
	// A machine that slept for days sends each overdue report once.
	weekly := send(x, day.AddDate(0, 0, 7).Add(9*time.Hour), 2)
	reads(t, weekly[1], "head@school.example", "report-2026-11-23", "Бат-Эрдэнэ", "")

	away := sending(nobody)
	send(away, day.Add(12*time.Hour), 0)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	if err := away.send(ctx, day.Add(31*time.Hour)); err == nil {
		t.Fatal("no mail server accepted a report, and send returns no error")
	}
	away.Mail = x.Mail
	send(away, day.Add(32*time.Hour), 1)
	partly := sending(addr)
	partly.Schedules[0].Mail = setting.OneOrMore[string]{"nobody@school.example"}
	partly.Schedules[1].Every = "day"
	send(partly, day.Add(12*time.Hour), 0)
	for _, want := range []int{1, 0} {
		if err := partly.send(ctx, day.Add(31*time.Hour)); err == nil || !strings.Contains(err.Error(), "nobody of that name") || len(got) != want {
			t.Fatalf("after one refusal %d reports were accepted, want %d; %v", len(got), want, err)
		}
		for len(got) > 0 {
			reads(t, <-got, "head@school.example", "report-2026-11-23", "anna", "")
		}
	}
	events = nil
	away.Source = func() Source { return nil }
	if err := away.send(ctx, day.Add(55*time.Hour)); err == nil || !strings.Contains(err.Error(), "keeps events") {
		t.Errorf("sending without a record: %v, want an error", err)
	}
}

// reads checks a mail: its recipient, its files, and which names the CSV contains or lacks.
func reads(t *testing.T, text, to, file, with, without string) {
	t.Helper()
	m, err := stdmail.ReadMessage(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(m.Header.Get("To"), to) {
		t.Errorf("the mail goes to %s, not to %s", m.Header.Get("To"), to)
	}
	_, p, err := mime.ParseMediaType(m.Header.Get("Content-Type"))
	if err != nil {
		t.Fatal(err)
	}
	parts, files := multipart.NewReader(m.Body, p["boundary"]), map[string]string{}
	for {
		part, err := parts.NextPart()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		var body io.Reader = part
		if part.Header.Get("Content-Transfer-Encoding") == "base64" {
			body = base64.NewDecoder(base64.StdEncoding, part)
		}
		b, err := io.ReadAll(body)
		if err != nil {
			t.Fatal(err)
		}
		files[part.FileName()] = string(b)
	}
	if !strings.HasPrefix(files[file+".pdf"], "%PDF-") || !strings.Contains(files[file+".csv"], with) || without != "" && strings.Contains(files[file+".csv"], without) || files[""] == "" {
		t.Errorf("the mail has the files %q", files)
	}
}

// One refused address does not keep a report from the others, nor do they get it twice. One that
// the server refuses for now gets it later, also after a restart, and one that is refused for good
// is a problem until the next report.
func TestAReportReachesThoseWhoAreNotRefused(t *testing.T) {
	addr, got, busy := busyOffice(t)
	s, err := mail.New(mail.Config{Server: "smtp://" + addr, From: "filter@school.example"})
	if err != nil {
		t.Fatal(err)
	}
	day := time.Date(2026, 11, 23, 0, 0, 0, 0, time.Local)
	events := sample(day.Add(8 * time.Hour))
	file := filepath.Join(t.TempDir(), "sent.json")
	sending := func() *Sending {
		x := &Sending{Mail: s, File: file, Source: func() Source { return events }, Log: slog.New(slog.DiscardHandler),
			Groups:    func(netip.Addr, string) []string { return nil },
			Schedules: []Schedule{{Every: "day", Mail: setting.OneOrMore[string]{"nobody@school.example", "busy@school.example", "head@school.example"}}}}
		if err := x.Check(); err != nil {
			t.Fatal(err)
		}
		return x
	}
	x := sending()
	step := func(what string, at time.Time, sent int, to, problem string) {
		t.Helper()
		if err := x.send(t.Context(), at); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if len(got) != sent {
			t.Fatalf("%s: %d reports were sent, want %d", what, len(got), sent)
		}
		for len(got) > 0 {
			if text := <-got; !strings.Contains(text, to) {
				t.Errorf("%s: the report goes to others than %s: %.200s", what, to, text)
			}
		}
		if p := strings.Join(x.Problems(), " "); problem == "" && p != "" || !strings.Contains(p, problem) {
			t.Errorf("%s: problems %q, want %q", what, p, problem)
		}
	}
	step("a new schedule", day.Add(12*time.Hour), 0, "", "")
	busy.Store(true)
	step("two are refused", day.Add(31*time.Hour), 1, "head@school.example", "nobody of that name")
	x = sending() // a restart
	busy.Store(false)
	step("one may now", day.Add(32*time.Hour), 1, "busy@school.example", "nobody of that name")
	step("all is done", day.Add(33*time.Hour), 0, "", "nobody of that name")
	for _, text := range []string{"", "{", "null", "[]"} { // which reports were sent is no longer known
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		step("damaged", day.Add(34*time.Hour), 0, "", "")
	}
	if all, err := filepath.Glob(file + ".damaged-*"); err != nil || len(all) != 4 {
		t.Errorf("set aside: %q, %v", all, err)
	}
}
