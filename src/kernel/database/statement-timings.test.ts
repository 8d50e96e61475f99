import { describe, expect, it } from 'vitest';
import { createStatementTimings, statementKind } from './statement-timings.ts';

describe('the kind of a statement', () => {
  it.each([
    ['select t0.* from app."Post" t0 where true', 'select', 'app.Post'],
    [
      'with r as (insert into app."Post" ("_id") values ($1) returning *), e as (insert into penstock.outbox ...) select 1',
      'insert',
      'app.Post',
    ],
    [
      'with r as (update app."A ""b" t0 set x = $1 returning *) select * from r',
      'update',
      'app.A "b',
    ],
    [
      'with g as (select 1 from penstock.tuples) delete from only app."Post" t0',
      'delete',
      'app.Post',
    ],
    ['select 1 from penstock.tuples x join public.film f on true', 'select', 'public.film'],
    ['select position from penstock.outbox for update of outbox', 'select', 'penstock.outbox'],
    [`select 'update secret.table' from app.x`, 'select', 'app.x'],
    [
      'select extract(epoch from s.ends_at) from penstock.sessions s',
      'select',
      'penstock.sessions',
    ],
    [
      'select (select r.* from app."Album" r where r.id = t.album) from (select * from app."Track" t)',
      'select',
      'app.Album',
    ],
    [
      'select coalesce((select (select r.* from app."Album" r) from app."Track" t))',
      'select',
      'app.Track',
    ],
    ['begin', 'other', ''],
    ['select 1', 'select', ''],
  ])('%s', (text, operation, table) => {
    expect(statementKind(text)).toEqual({ operation, table });
  });

  it('is found in one walk through the text: a long filter costs no more than its length', () => {
    const links = Array.from(
      { length: 5_000 },
      (_, i) => `exists (select 1 from app."Tag" t${i} where (t${i}."a" = $1))`,
    ).join(' and ');
    const begin = performance.now();
    expect(statementKind(`select 1 where ${links} and exists (select 1 from app."Post")`)).toEqual({
      operation: 'select',
      table: 'app.Tag',
    });
    expect(
      statementKind(`select (select 1 from app."Tag"), 1 from app."Post" where ${links}`).table,
    ).toBe('app.Post');
    expect(performance.now() - begin).toBeLessThan(1_000);
  });
});

describe('timings', () => {
  const read = { text: 'select 1 from app.x', name: 'p_1' };

  it('are counted by kind, with bounds that hold the values', () => {
    const timings = createStatementTimings();
    for (let ms = 1; ms <= 100; ms += 1) timings.note(read, ms);
    const [figures] = timings.figures();
    expect(figures).toMatchObject({
      operation: 'select',
      table: 'app.x',
      count: 100,
      total: 5050,
      max: 100,
    });
    expect(figures?.p50).toBeGreaterThanOrEqual(50);
    expect(figures?.p50).toBeLessThan(50 * 1.3);
    expect(figures?.p95).toBeGreaterThanOrEqual(95);
    expect(figures?.p95).toBeLessThanOrEqual(100);
  });

  it('tell an observer the seconds', () => {
    const seen: [string, number][] = [];
    const timings = createStatementTimings({
      observer:
        ({ operation, table }) =>
        (seconds) =>
          seen.push([`${operation} ${table}`, seconds]),
    });
    timings.note(read, 250);
    timings.note(read, 0.01);
    timings.note({ text: 'commit' }, 40_000);
    expect(seen).toEqual([
      ['select app.x', 0.25],
      ['select app.x', 0.00001],
      ['other ', 40],
    ]);
  });

  it('stay bounded whatever tables statements name', () => {
    const timings = createStatementTimings();
    for (let i = 0; i < 2_000; i += 1) timings.note({ text: `select 1 from other.t${i}` }, 1);
    expect(timings.figures().length).toBeLessThanOrEqual(401);
    expect(timings.figures().reduce((sum, { count }) => sum + count, 0)).toBe(2_000);
  });
});
