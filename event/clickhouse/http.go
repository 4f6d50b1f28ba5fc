package clickhouse

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// maxAnswer bounds an answer of the server, in bytes. A few thousand rows are requested at a
// time, and a row has at most some 30 KiB.
const maxAnswer = 256 << 20

// A serverError is the error with which the server answers a query.
type serverError struct {
	code string // such as "81": the database does not exist
	text string
}

func (e *serverError) Error() string { return e.text }

func isUnknownDatabase(err error) bool {
	var e *serverError
	return errors.As(err, &e) && e.code == "81"
}

// exec runs a statement without a result.
func (s *Store) exec(ctx context.Context, statement string) error {
	_, err := s.post(ctx, url.Values{"mutations_sync": {"1"}, "max_query_size": {"8000000"}}, strings.NewReader(statement))
	return err
}

// createDatabase creates the database named in the address.
func (s *Store) createDatabase(ctx context.Context) error {
	_, err := s.post(ctx, url.Values{"database": {"default"}}, strings.NewReader("CREATE DATABASE IF NOT EXISTS "+s.database))
	return err
}

// insert inserts rows in the format RowBinary, once for each token.
func (s *Store) insert(ctx context.Context, rows []byte, token string) error {
	_, err := s.post(ctx, url.Values{
		"query":                      {"INSERT INTO event (" + columns + ") FORMAT RowBinary"},
		"insert_deduplication_token": {token},
		"async_insert":               {"0"},
	}, bytes.NewReader(rows))
	return err
}

// ask runs a query and calls row for each row of the result.
func (s *Store) ask(ctx context.Context, query string, row func(d *decoder)) error {
	answer, err := s.post(ctx, url.Values{}, strings.NewReader(query+" FORMAT RowBinary"))
	if err != nil {
		return err
	}
	d := decoder{rest: answer}
	for len(d.rest) > 0 && d.err == nil {
		row(&d)
	}
	return d.err
}

// post sends a request. The server answers when the result is complete, so that
// an error cannot follow rows.
func (s *Store) post(ctx context.Context, settings url.Values, body io.Reader) ([]byte, error) {
	if settings.Get("database") == "" {
		settings.Set("database", s.database)
	}
	settings.Set("wait_end_of_query", "1")
	settings.Set("log_queries", "0")   // otherwise the server's log would record searched names
	if end, ok := ctx.Deadline(); ok { // so that abandoned queries end
		settings.Set("max_execution_time", strconv.Itoa(max(1, int(time.Until(end)/time.Second)+1)))
	}
	u := *s.server
	u.RawQuery = settings.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), body)
	if err != nil {
		return nil, err
	}
	if s.user != "" {
		req.Header.Set("X-ClickHouse-User", s.user)
		req.Header.Set("X-ClickHouse-Key", s.password)
	}
	res, err := s.client.Do(req)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err // without the query
		}
		return nil, fmt.Errorf("%s: %w", s.server.Host, err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", s.server.Host, err)
	case res.StatusCode != http.StatusOK || res.Header.Get("X-ClickHouse-Exception-Code") != "":
		text := strings.TrimSpace(string(answer[:min(len(answer), 500)]))
		return nil, &serverError{res.Header.Get("X-ClickHouse-Exception-Code"), fmt.Sprintf("%s answers %s: %s", s.server.Host, res.Status, text)}
	case len(answer) > maxAnswer:
		return nil, fmt.Errorf("%s: the answer has more than %d bytes", s.server.Host, maxAnswer)
	}
	return answer, nil
}

// A decoder reads the format RowBinary. After an error it returns zero values.
type decoder struct {
	rest []byte
	err  error
}

var errCut = errors.New("the answer of ClickHouse ends within a row")

func (d *decoder) int64() int64 {
	if len(d.rest) < 8 {
		d.err, d.rest = errCut, nil
		return 0
	}
	n := int64(binary.LittleEndian.Uint64(d.rest))
	d.rest = d.rest[8:]
	return n
}

func (d *decoder) text() string {
	n, k := binary.Uvarint(d.rest)
	if k <= 0 || n > uint64(len(d.rest)-k) {
		d.err, d.rest = errCut, nil
		return ""
	}
	text := string(d.rest[k : k+int(n)])
	d.rest = d.rest[k+int(n):]
	return text
}
