package verify

import (
	"context"
	"database/sql"
)

// reader reads rows until there is an error.
type reader struct {
	ctx context.Context //nolint:containedctx // of one reading
	db  *sql.DB
	err error
}

type scan func(dest ...any) error

func (r *reader) rows(query string, each func(scan) error) {
	if r.err != nil {
		return
	}
	rows, err := r.db.QueryContext(r.ctx, query)
	if err != nil {
		r.err = err
		return
	}
	defer rows.Close()
	for rows.Next() {
		if r.err = each(rows.Scan); r.err != nil {
			return
		}
	}
	r.err = rows.Err()
}
