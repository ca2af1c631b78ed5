// Package fakemysql is a MySQL server in memory, as far as outboxgen's statements
// need one, behind a connector of database/sql. It is made for bubbles of
// testing/synctest: all of its waits are durable, and its clock is the bubble's.
//
// It reads the text of the statements, so that a changed statement does
// something else here, too; what it can't read is error 1064. It keeps these rules
// of InnoDB at READ COMMITTED:
//
//   - what a transaction changed is seen by itself, and by others after its commit;
//   - changed rows, and rows of locking reads, are locked until its end; who wants them
//     waits, in order, for the lock wait timeout at most (error 1205, which undoes the statement);
//   - who closes a circle of waits is rolled back (error 1213);
//   - SKIP LOCKED passes locked rows over;
//   - who inserts a key that another transaction has inserted waits for its end, and
//     then fails (error 1062, in the server's words) or goes on.
//
// A plain read sees what is committed at that moment at every isolation level, and a
// table has one unique key. There are no gap locks.
//
// What may break is in [Wire] and in the methods of [Server]: requests and replies that
// get lost or come late, on connections of which the server learns the end or doesn't; a
// restart; a read-only server; a clock that jumps.
package fakemysql
