package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/outboxgen/outboxgen/internal/privileges"
	"github.com/outboxgen/outboxgen/internal/schemadiff"
	"github.com/outboxgen/outboxgen/internal/spec"
	"github.com/outboxgen/outboxgen/internal/sqlgen"
)

// privileges compares what the connection's user has with what its role needs.
func (l *look) privileges(ctx context.Context) error {
	have, account, database, err := l.held(ctx)
	if err != nil {
		return err
	}
	server := privileges.MySQL
	if l.server.MariaDB {
		server = privileges.MariaDB
	}
	set, problems := privileges.Of(l.cfg.Model, server, l.cfg.Role, l.theConsumer())
	if len(problems) > 0 {
		return problems
	}
	user, host, _ := cutLast(account, "@")
	who := privileges.Account{User: user, Host: host, Database: database}
	for _, statement := range set.Missing(have).Statements(who) {
		// Findings are told apart by what they say: without the table there would be one for all of them.
		_, on, _ := cutLast(strings.TrimSuffix(statement, " TO "+who.String()), " ON ")
		l.fail("privilege-missing", fmt.Sprintf("%s lacks what the role %s needs on %s", who, l.cfg.Role, on), statement+";")
	}
	if more := set.TooMuch(have, l.isOurs); len(more) > 0 {
		l.note("privilege-spare", fmt.Sprintf("%s has more than the role %s needs: %s", who, l.cfg.Role, strings.Join(more, "; ")),
			"REVOKE it, unless the user has other tasks; outboxgen doctor --grants prints the least")
	}
	return nil
}

// isOurs reports one of our tables or views.
func (l *look) isOurs(table string) bool {
	layouts, _ := sqlgen.Tables(l.cfg.Model)
	return slices.Contains(schemadiff.Names(layouts), table)
}

// theConsumer is whose privileges they are, where there is one in this database.
func (l *look) theConsumer() string {
	here := slices.DeleteFunc(slices.Clone(l.cfg.Model.Consumers), func(c *spec.Consumer) bool { return !l.consumers[c.Name.Text] })
	if len(here) == 1 {
		return here[0].Name.Text
	}
	return ""
}

func cutLast(text, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(text, sep); i >= 0 {
		return text[:i], text[i+len(sep):], true
	}
	return text, "", false
}

// held are the privileges of the connection's user.
func (l *look) held(ctx context.Context) (have privileges.Held, account, database string, err error) {
	var role string
	if err := l.db.QueryRowContext(ctx, "SELECT CURRENT_USER(), DATABASE(), COALESCE(CURRENT_ROLE(), 'NONE')").Scan(&account, &database, &role); err != nil {
		return have, "", "", err
	}
	show := "SHOW GRANTS" // on MariaDB with those of the role
	if !l.server.MariaDB && role != "NONE" {
		show = "SHOW GRANTS FOR CURRENT_USER() USING " + role // quoted by the server
	}
	rows, err := l.db.QueryContext(ctx, show)
	if err != nil {
		return have, "", "", err
	}
	defer rows.Close()
	var lines []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return have, "", "", err
		}
		lines = append(lines, line)
	}
	return privileges.Parse(lines, database, l.vars["lower_case_table_names"] != "0"), account, database, rows.Err()
}
