package engine

import (
	"context"

	"shuultuur/datadir"
	"shuultuur/event/record"
)

func openData(_ context.Context, b *builder) (*datadir.Folder, error) {
	return datadir.Open(string(b.Settings.Data), !b.trial())
}

// tryRecord opens the stores on trial, which finds mistakes in their files.
func tryRecord(_ context.Context, b *builder) error {
	r, err := record.Open(b.Settings.Events, record.Parts{Data: string(b.Settings.Data), Trial: true, Log: b.log})
	if err != nil {
		return err
	}
	return r.Close()
}

func openRecord(_ context.Context, b *builder) (*record.Record, error) {
	return record.Open(b.Settings.Events, record.Parts{Data: string(b.Settings.Data), Trial: b.trial(), Log: b.log})
}
