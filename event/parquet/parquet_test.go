package parquet

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shuultuur/event"
	"shuultuur/event/eventtest"
	"shuultuur/test/peer"
)

// reader prints the rows of a Parquet file as JSON, one on a line.
const reader = `
import json, sys, pyarrow.parquet as p
schema = p.ParquetFile(sys.argv[1]).schema
logical = str(next(schema.column(i).logical_type for i in range(len(schema.names)) if schema.names[i] == "time"))
for row in p.read_table(sys.argv[1], partitioning=None).to_pylist():
    row["time"], row["logical"] = row["time"].isoformat(), logical
    print(json.dumps(row))
`

// TestOthersReadTheFiles reads a file with Apache Arrow.
func TestOthersReadTheFiles(t *testing.T) {
	py, dir := peer.Python(t, "pyarrow"), t.TempDir()
	for name, rows := range map[string][]event.Row{
		"ordinary": eventtest.Rows(eventtest.Start(), 1000),
		"hostile":  eventtest.HostileRows(eventtest.Start()),
		"one":      eventtest.Rows(eventtest.Start(), 1),
	} {
		file := filepath.Join(dir, name+".parquet")
		if err := os.WriteFile(file, Append(nil, rows), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(py, "-c", reader, file).Output()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
		if len(lines) != len(rows) {
			t.Fatalf("%s: %d rows, want %d", name, len(lines), len(rows))
		}
		for i, line := range lines {
			var got struct {
				Time, Logical, ID, Client, User, URL, Host, Action, Proto, Findings string
				Bytes_out, Length, Duration_us                                      int64
				Port, Status, Score                                                 int
				Learned, Parent                                                     bool
			}
			if err := json.Unmarshal(line, &got); err != nil {
				t.Fatal(err)
			}
			if l := got.Logical; !strings.Contains(l, "isAdjustedToUTC=true") || strings.Contains(l, "is_from_converted_type=true") {
				t.Fatalf("%s: the time is of the type %s, want one in UTC", name, l)
			}
			r := &rows[i]
			at, err := time.Parse("2006-01-02T15:04:05.999999-07:00", got.Time)
			mended := func(s string) string { return strings.ToValidUTF8(s, "\ufffd") }
			if err != nil || !r.Time.IsZero() && !at.Equal(r.Time) || got.ID != mended(r.ID) || got.URL != mended(r.URL) || got.Findings != mended(r.Findings) || got.Client != address(r.Client) ||
				got.Action != r.Action.String() || got.Proto != r.Proto.String() || got.Bytes_out != r.BytesOut || got.Length != r.Length || got.Duration_us != r.Duration.Microseconds() ||
				got.Port != int(r.Port) || got.Status != r.Status || got.Score != r.Score || got.Learned != r.Learned || got.Parent != r.Parent {
				t.Fatalf("%s, row %d: got %s, want %+v, %v", name, i, line, r, err)
			}
		}
	}
}

func TestAFolderGetsAFileForEachBatch(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(Config{To: "lake"}, dir)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	rows := eventtest.Rows(at, 20)
	for range 2 { // writing again makes the same file
		if err := s.Write(t.Context(), rows[:10]); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Write(t.Context(), rows[10:]); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "lake", "date=2026-03-04", "050607-*.parquet"))
	if err != nil || len(files) != 2 {
		t.Fatalf("the folder has the files %v, %v; want two", files, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil || !bytes.HasPrefix(b, []byte(magic)) || !bytes.HasSuffix(b, []byte(magic)) {
		t.Errorf("the file has %d bytes, %v; want Parquet's magic at both ends", len(b), err)
	}
}

func TestAnObjectStoreGetsObjects(t *testing.T) {
	type object struct {
		path, sum string
		size      int
	}
	var got []object
	status := 200
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b := new(bytes.Buffer)
		_, _ = b.ReadFrom(r.Body)
		got = append(got, object{r.Method + " " + r.URL.EscapedPath(), r.Header.Get("X-Amz-Content-Sha256"), b.Len()})
		if !strings.Contains(r.Header.Get("Authorization"), "Credential=key/") {
			t.Errorf("the request is not signed: %v", r.Header)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte("<Error><Code>SlowDown</Code></Error>"))
	}))
	defer srv.Close()
	s, err := Open(Config{To: "s3://lake/gate way/events", Endpoint: srv.URL, Key: "key", Secret: "secret"}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rows := eventtest.Rows(time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), 5)
	if err := s.Write(t.Context(), rows); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || !strings.HasPrefix(got[0].path, "PUT /lake/gate%20way/events/date%3D2026-03-04/050607-") || got[0].size != len(Append(nil, rows)) {
		t.Errorf("the object store got %+v", got)
	}
	for _, status = range []int{503, 403, 301} {
		err := s.Write(t.Context(), rows)
		if _, refused := errors.AsType[*event.Refused](err); err == nil || refused || !strings.Contains(err.Error(), "SlowDown") {
			t.Errorf("status %d of the object store: %v, want an error that is not final", status, err)
		}
	}
}

func TestWrongSettingsAreRefused(t *testing.T) {
	for want, cfg := range map[string]Config{
		"to: is missing":         {},
		"is a folder":            {To: "lake", Key: "k"},
		"needs an access key":    {To: "s3://lake"},
		"names no bucket":        {To: "s3:///x", Key: "k", Secret: "s"},
		"lake house\" names no":  {To: "s3://lake house", Key: "k", Secret: "s"},
		"is not an object store": {To: "s3://lake", Endpoint: "minio:9000", Key: "k", Secret: "s"},
		"not between 1s":         {To: "lake", Every: 1},
	} {
		if _, err := Open(cfg, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
