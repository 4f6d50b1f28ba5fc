//go:build !linux || !(amd64 || arm64)

package batch

type rawName struct{}

// fastReader is empty: there are no batches on this system.
type fastReader struct{}

func newFast(*Conn) (*fastReader, error) { return nil, nil }

func (*fastReader) read(*Conn) (int, error) { return 0, nil }

type fastSender struct{ works bool }

func newFastSender(*Conn) *fastSender { return nil }

func (*fastSender) send(*Sender, int, int) (int, error) { return 0, nil }
