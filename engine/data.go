package engine

import (
	"context"

	"shuultuur/event/record"
	"shuultuur/lib/datadir"
)

func openData(_ context.Context, b *builder) (*datadir.Folder, error) {
	if b.trial() {
		return datadir.Look(string(b.Settings.Data))
	}
	return datadir.Open(string(b.Settings.Data))
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
