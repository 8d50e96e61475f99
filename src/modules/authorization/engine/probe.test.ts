/** What one lookup decides, and what it leaves to the walk. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { openTupleTable, type TupleTable } from '../../../../test/support/tuple-table.ts';
import type { Queryable, Statement } from '../../../kernel/database/database.ts';
import { parseDefinition } from '../model/definition.ts';
import { parseObject, parseSubject } from '../model/grammar.ts';
import { buildModel } from '../model/model.ts';
import { createEngine } from './create.ts';
import type { AskOptions } from './engine.ts';
import type { Tuple } from './tuple.ts';

const engine = createEngine(
  buildModel(
    [
      { name: 'User', relations: {}, permissions: {} },
      { name: 'Team', relations: { member: ['User'] }, permissions: { read: ['member'] } },
      {
        name: 'Doc',
        relations: {
          owner: ['User'],
          viewer: ['User', 'Team#member'],
          guest: ['User with place'],
          reader: ['User:*'],
          banned: ['User'],
          team: ['Team'],
        },
        permissions: {
          edit: ['owner'],
          change: ['edit'],
          read: ['edit', 'viewer', 'reader', 'team->read'],
          visit: ['owner', 'guest'],
          calm: { exclusion: { base: ['owner'], subtract: ['banned'] } },
          pair: { intersection: ['owner', 'viewer'] },
          mixed: { union: ['owner', { exclusion: { base: ['viewer'], subtract: ['banned'] } }] },
          lead: ['team->read'],
          open: ['*'],
          none: [],
        },
        conditions: { place: { eq: [{ context: 'place' }, { attribute: 'place' }] } },
      },
    ].map(parseDefinition),
    1,
  ),
);

let table: TupleTable;
let sent: Statement[] = [];
let counted: Queryable;
beforeAll(async () => {
  table = await openTupleTable();
  counted = {
    query: (statement) => {
      sent.push(statement);
      return table.database.query(statement);
    },
  };
});
afterAll(() => table.close());
beforeEach(() => table.replace([]));

function tuple(text: string, more: Partial<Tuple> = {}): Tuple {
  const [subject = '', relation = '', resource = ''] = text.split(' ');
  return { subject: parseSubject(subject, 'subject'), relation, resource: parseObject(resource, 'resource'), ...more };
}

/** The answer, `left` when the lookup does not decide it, and `unasked` when none is made. */
async function probe(text: string, options?: AskOptions): Promise<boolean | 'left' | 'unasked'> {
  sent = [];
  const { subject, relation, resource } = tuple(text);
  const found = await engine.probe(counted, { subject, action: relation, resource }, options);
  expect(sent.map((statement) => statement.class)).toEqual(found ? ['short'] : []);
  return found ? (found.allowed ?? 'left') : 'unasked';
}

describe('a probe', () => {
  it('allows by a relation, a direct grant or everybody of a type, in one short statement', async () => {
    await table.replace([
      tuple('User:a owner Doc:1'),
      tuple('User:b can:edit Doc:1'),
      tuple('User:* viewer Doc:2'),
      tuple('Team:t#member viewer Doc:3'),
    ]);
    for (const action of ['edit', 'change', 'read', 'visit', 'mixed', 'owner']) {
      expect([action, await probe(`User:a ${action} Doc:1`)]).toEqual([action, true]);
    }
    for (const action of ['edit', 'change', 'read']) expect([action, await probe(`User:b ${action} Doc:1`)]).toEqual([action, true]);
    expect(await probe('User:x read Doc:2')).toBe(true);
    expect(await probe('User:* read Doc:2')).toBe(true);
    expect(await probe('Team:t#member read Doc:3')).toBe(true);
    expect(await probe('User:x open Doc:9')).toBe(true);
  });

  it('denies where there is no other way, and only there', async () => {
    await table.replace([tuple('User:a owner Doc:1')]);
    for (const action of ['edit', 'change', 'none', 'owner']) {
      expect([action, await probe(`User:b ${action} Doc:1`)]).toEqual([action, false]);
    }
    for (const action of ['read', 'visit', 'mixed']) expect([action, await probe(`User:b ${action} Doc:1`)]).toEqual([action, 'left']);
    expect(await probe('Doc:1#owner owner Doc:1')).not.toBe(false);
  });

  it('leaves exclusions, intersections and arrows to the walk, without a statement', async () => {
    await table.replace([tuple('User:a owner Doc:1'), tuple('User:a banned Doc:1'), tuple('User:a viewer Doc:1')]);
    for (const action of ['calm', 'pair', 'lead']) expect([action, await probe(`User:a ${action} Doc:1`)]).toEqual([action, 'unasked']);
  });

  it('is not misled by conditions, expired tuples or tuples that do not fit', async () => {
    await table.replace([
      tuple('User:a guest Doc:1', { condition: 'place', attributes: { place: 'home' } }),
      tuple('User:b owner Doc:1', { expired: true }),
      tuple('User:c owner Doc:1', { expired: false }),
      tuple('User:d owner Doc:1', { condition: 'place' }),
      tuple('User:e reader Doc:1'),
      tuple('Team:t owner Doc:1'),
    ]);
    expect(await probe('User:a visit Doc:1', { context: { place: 'home' } })).toBe('left');
    expect(await probe('User:b edit Doc:1')).toBe(false);
    expect(await probe('User:c edit Doc:1')).toBe(true);
    expect(await probe('User:d edit Doc:1')).toBe(false);
    expect(await probe('User:e read Doc:1')).toBe('left');
    expect(await probe('Team:t edit Doc:1')).toBe(false);
  });

  it('is not made for given tuples, objects themselves and unknown words', async () => {
    await table.replace([tuple('User:a owner Doc:1')]);
    expect(await probe('User:a edit Doc:1', { contextual: [tuple('User:a owner Doc:1', { expired: true })] })).toBe('unasked');
    for (const text of ['Doc:1 edit Doc:1', 'Robot:a edit Doc:1', 'User:a fly Doc:1', 'Team:t#boss edit Doc:1', 'User:a edit Robot:1']) {
      expect([text, await probe(text)]).toEqual([text, 'unasked']);
    }
  });

  it('says of which definitions it is true', async () => {
    const { subject, relation, resource } = tuple('User:a edit Doc:1');
    const question = { subject, action: relation, resource };
    expect(await engine.probe(table.database, question)).toEqual({ revision: 0, allowed: false });
    await table.database.query({
      text: `insert into penstock.resource_definition_versions (name, changed_by) values ('Doc', 'test')`,
    });
    expect((await engine.probe(table.database, question))?.revision).toBe(1);
  });

  it('reaches its tuple by an index that knows the resource, whatever the subject holds besides', async () => {
    await table.replace(Array.from({ length: 3_000 }, (_, i) => tuple(`User:a owner Doc:d${i}`)));
    await table.database.query({ text: 'analyze penstock.tuples' });
    await probe('User:a edit Doc:other');
    const [{ text = '', values = [] } = {}] = sent;
    const { rows } = await table.database.query<{ 'QUERY PLAN': string }>({ text: `explain (analyze, costs off) ${text}`, values });
    const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
    expect(plan).toMatch(/tuples_by_(resource|subject)/);
    expect(plan).not.toMatch(/tuples_counted|Seq Scan on tuples|Rows Removed/);
  });
});
