package outboxhealth_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/outboxgen/outboxgen/runtime/outboxhealth"
)

func ExampleHealth_Handler() {
	health := outboxhealth.New(outboxhealth.Config{
		Database: func(context.Context) error { return nil }, // in a service: db.PingContext
	})
	w := httptest.NewRecorder()
	health.Handler().ServeHTTP(w, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/readyz", nil))
	fmt.Print(w.Code, " ", w.Body)
	// Output: 200 {"status":"ok","checks":[{"name":"database","ok":true}]}
}
