package engine

import (
	"context"

	"shuultuur/datadir"
	"shuultuur/event/record"
)

func openData(_ context.Context, b *builder) (*datadir.Folder, error) {
	return datadir.Open(string(b.Settings.Data), !b.trial())
}

func openRecord(_ context.Context, b *builder) (*record.Record, error) {
	return record.Open(b.Settings.Events, record.Parts{Data: string(b.Settings.Data), Trial: b.trial(), Log: b.log})
}
