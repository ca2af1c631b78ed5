package lint

import (
	"fmt"
	"strings"

	"github.com/outboxgen/outboxgen/internal/spec"
)

// people looks for fields that name a person in all that events hold, older versions
// too: a mark can still be added to them. What stands below a marked field is
// marked, so that a type is looked at only where it isn't.
func (l *linter) people() {
	for _, e := range l.model.Events {
		for _, v := range e.Versions {
			l.peopleIn(subject{e.Name.Text}, v.Fields)
		}
	}
}

func (l *linter) peopleIn(owner subject, fields []*spec.Field) {
	for _, f := range fields {
		if f.PII {
			continue
		}
		about := owner.field(f.Name.Text)
		t := leaf(f.Type)
		if n := t.Named; n != nil && !l.private[n] {
			l.private[n] = true
			inner := about
			if !n.Inline {
				inner = subject{n.Name.Text}
			}
			l.peopleIn(inner, n.Fields)
		}
		if holdsText(t.Kind) && isPersonal(f.Name.Text) {
			l.report("pii-unmarked", about, f.Name, fmt.Sprintf("%q sounds like data of a person, and isn't marked pii", f.Name.Text),
				"add pii: true, which keeps it out of logs and listings; if it is nobody's, list it under lint.ignore.pii-unmarked")
		}
	}
}

// holdsText leaves out what can't be a name, a number or an address of somebody:
// email_verified is a bool, and email_sent_at a timestamp.
func holdsText(k spec.Kind) bool {
	switch k {
	case spec.KindString, spec.KindInt32, spec.KindInt64, spec.KindDate, spec.KindBytes, spec.KindJSON:
		return true
	}
	return false
}

// isPersonal goes by the words at the end of a name: customer_email, and not
// email_template. What identifies a row, as in address_id, names nobody.
func isPersonal(name string) bool {
	for rest := name; ; {
		if personal[rest] {
			return true
		}
		_, after, more := strings.Cut(rest, "_")
		if !more {
			return false
		}
		rest = after
	}
}

var personal = words(`email e_mail email_address mail_address phone phone_number telephone mobile mobile_number fax fax_number
	first_name last_name full_name middle_name given_name family_name surname maiden_name customer_name person_name
	recipient_name contact_name address street street_address address_line address_line1 address_line2 house_number zip
	zip_code postcode postal_code birth_date birthdate birthday date_of_birth dob birth_year ssn social_security_number
	passport passport_number national_id tax_number driving_licence_number iban account_number card_number ip ip_address
	user_agent gender`)
