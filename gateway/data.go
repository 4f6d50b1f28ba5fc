package gateway

import (
	"context"

	"shuultuur/datadir"
	"shuultuur/event"
	"shuultuur/event/record"
	"shuultuur/setting"
)

func openData(_ context.Context, b *builder) (*datadir.Folder, error) {
	return datadir.Open(string(b.settings.Data), !b.trial())
}

func openRecord(_ context.Context, b *builder) (*record.Record, error) {
	return record.Open(b.settings.Events, record.Parts{Data: string(b.settings.Data), Trial: b.trial(), Log: b.log})
}

// Events opens the record that the settings in file name, for queries beside a
// running gateway.
func Events(file string) (event.Reader, func() error, error) {
	s, err := Read(file)
	if err != nil {
		return nil, nil, err
	}
	r, done, err := record.Look(s.Events, string(s.Data))
	if err != nil {
		return nil, nil, s.text.Mistakes(setting.At("events", err))
	}
	return r, done, nil
}
