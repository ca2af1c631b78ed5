package mysqldb

import (
	"database/sql/driver"
	"errors"
	"io"
)

// mysqlRows is what database/sql uses of the driver's result sets.
type mysqlRows interface {
	driver.Rows
	driver.RowsNextResultSet
	driver.RowsColumnTypeDatabaseTypeName
	driver.RowsColumnTypeNullable
	driver.RowsColumnTypePrecisionScale
	driver.RowsColumnTypeScanType
}

// guardRows is a result set: its error may come with any of its rows, or when
// what is left of it is read by Close.
type guardRows struct {
	mysqlRows
	conn *guardConn
}

func (c *guardConn) guardRows(rows driver.Rows) driver.Rows {
	inner, ok := rows.(mysqlRows)
	if !ok {
		return rows // nil, with an error
	}
	return &guardRows{mysqlRows: inner, conn: c}
}

func (r *guardRows) Next(dest []driver.Value) error {
	err := r.mysqlRows.Next(dest)
	r.note(err)
	return err
}

func (r *guardRows) NextResultSet() error {
	err := r.mysqlRows.NextResultSet()
	r.note(err)
	return err
}

func (r *guardRows) Close() error {
	err := r.mysqlRows.Close()
	r.note(err)
	return err
}

func (r *guardRows) note(err error) {
	if !errors.Is(err, io.EOF) { // the end of the rows, not of the connection
		r.conn.note(err)
	}
}
