import { readdir, readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { readPermissionTests } from './file.ts';
import { problemLines, resultLines, runPermissionTests } from './run.ts';

const examples = new URL('../../../../examples/permissions/', import.meta.url);
const files = (await readdir(examples)).filter((name) => name.endsWith('.yaml'));

const run = async (document: unknown): Promise<readonly string[]> => {
  const tests = readPermissionTests(document);
  return 'length' in tests ? problemLines(tests) : resultLines(await runPermissionTests(tests));
};

describe('permission tests', () => {
  it.each(files)('%s holds', async (name) => {
    const tests = readPermissionTests(parse(await readFile(new URL(name, examples), 'utf8')));
    expect(
      'length' in tests ? problemLines(tests) : (await runPermissionTests(tests)).failures,
    ).toEqual([]);
  });

  const model = {
    User: null,
    Doc: { relations: { owner: ['User'] }, permissions: { read: ['owner'], open: ['*'] } },
  };

  it('say what does not hold, and why', async () => {
    const lines = await run({
      model,
      tuples: ['User:a owner Doc:1'],
      tests: [
        {
          name: 'wrong hopes',
          allowed: ['User:b read Doc:1'],
          denied: ['User:a read Doc:1'],
          list: { 'User:a read Doc': ['Doc:2'] },
          who: { 'open Doc:1': ['User:a'] },
        },
      ],
    });
    const text = lines.join('\n');
    expect(text).toContain('FAILED wrong hopes');
    expect(text).toContain('allowed: User:b read Doc:1: is denied');
    expect(text).toContain('does not stand in owner of Doc:1');
    expect(text).toContain('denied: User:a read Doc:1: is allowed');
    expect(text).toContain('(User:a#owner@Doc:1)');
    expect(text).toContain('Doc:2 is missing, Doc:1 is too much');
    expect(text).toContain('User:* is too much');
    expect(text).toContain('0 of 4 assertions hold');
  });

  it('name every key and value that is none, in words', async () => {
    const lines = await run({
      model: { ...model, Folder: { relation: {} } },
      tuples: [5, { subject: 'User:a', relation: 'owner', resource: 'Doc:1', expiresAt: 'soon' }],
      tests: [{ name: 'misspelt', alowed: [] }, {}],
    });
    expect(lines).toEqual([
      '  model.Folder.relation: is not known here',
      '  tuples.0: must be a string or an object',
      '  tuples.1.expiresAt: must be an ISO 8601 date and time with an offset below 16 hours, of the years 1 to 9999 and without leap seconds',
      '  tests.0.alowed: is not known here',
      '  tests.1.name: is required',
    ]);
    expect(await run({ model, tests: [] })).toEqual(['  tests: must have at least 1 items']);
  });

  it('grant directly, and expire', async () => {
    const lines = await run({
      model,
      grants: ['User:a read Doc:1'],
      tuples: [
        {
          subject: 'User:b',
          relation: 'owner',
          resource: 'Doc:1',
          expiresAt: '2001-01-01T00:00:00Z',
        },
      ],
      tests: [{ name: 'both', allowed: ['User:a read Doc:1'], denied: ['User:b read Doc:1'] }],
    });
    expect(lines).toEqual(['  2 of 2 assertions hold']);
  });

  it('fail for a question without an answer', async () => {
    const lines = await run({
      model,
      tests: [
        { name: 'unknown', denied: ['User:a fly Doc:1', 'Ghost:1 read Doc:1', 'User:a read'] },
      ],
    });
    expect(lines.join('\n')).toContain('"fly" is not an action of Doc');
    expect(lines.at(-1)).toBe('  0 of 3 assertions hold');
  });

  it('hang on rules about records only as far as the test says what these say', async () => {
    const rule = 'record.open == true';
    const ruled = {
      User: null,
      Doc: {
        relations: { owner: ['User'] },
        permissions: {
          read: ['owner', { rule }],
          keep: { exclusion: { base: ['owner'], subtract: { rule } } },
        },
      },
    };
    const asserted = {
      allowed: ['User:a read Doc:1'],
      denied: ['User:b read Doc:1', 'User:a keep Doc:1', 'User:b keep Doc:1'],
    };
    const tuples = ['User:a owner Doc:1'];
    const tested = (test: object) =>
      run({ model: ruled, tuples, tests: [{ name: 'x', ...asserted, ...test }] });
    const silent = await tested({});
    expect(silent.join('\n')).toContain(`denied: User:b read Doc:1: hangs on a rule`);
    expect(silent.at(-1)).toBe('  2 of 4 assertions hold');
    expect((await tested({ rules: { [rule]: true } })).at(-1)).toBe('  3 of 4 assertions hold');
    expect((await tested({ rules: { [rule]: false } })).at(-1)).toBe('  3 of 4 assertions hold');
    const misspelt = { name: 'x', ...asserted, rules: { 'record.opn': true } };
    expect(readPermissionTests({ model: ruled, tests: [misspelt] })).toEqual([
      expect.objectContaining({ path: 'tests.0.rules' }),
    ]);
  });

  it('fail for lists of what does not exist', async () => {
    const list = { 'User:a read Dok': [], 'User:a raed Doc': [], 'Usr:a read Doc': [] };
    const lines = await run({ model, tests: [{ name: 'empty', list }] });
    expect(lines.join('\n')).toContain('no type is called "Dok"');
    expect(lines.at(-1)).toBe('  0 of 3 assertions hold');
  });

  it.each([
    ['the file', 'nothing'],
    ['tests.0', { model, tests: [{ name: 'x', allowed: [], list: {} }] }],
    ['tests', { model }],
    ['tests.0.alowed', { model, tests: [{ name: 'x', alowed: [] }] }],
    [
      'model.Doc.permissions.read[0]',
      { model: { Doc: { permissions: { read: ['nobody'] } } }, tests: [{ name: 'x' }] },
    ],
    [
      'model.Doc.relations.a[0]',
      { model: { Doc: { relations: { a: ['Ghost'] } } }, tests: [{ name: 'x' }] },
    ],
    ['tuples.0.subject', { model, tuples: ['Usera owner Doc:1'], tests: [{ name: 'x' }] }],
    ['tests.0.tuples.0.relation', { model, tests: [{ name: 'x', tuples: ['User:a boss Doc:1'] }] }],
    ['grants.0.permission', { model, grants: ['User:a fly Doc:1'], tests: [{ name: 'x' }] }],
  ])('name the place of a problem: %s', (place, document) => {
    const problems = readPermissionTests(document);
    expect('length' in problems ? problems.map(({ path }) => path) : []).toContain(place);
  });
});
