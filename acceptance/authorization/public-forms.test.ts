/** Test files of other systems in their published forms, asked as `npm run conformance -- FILE` asks them. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { temporaryFolder } from '../../test/support/temporary-folder.ts';
import { ownCases } from '../conformance/cases.ts';
import { readFiles } from '../conformance/files.ts';
import { readModel } from '../conformance/forms/openfga-model.ts';
import { Unmapped } from '../conformance/forms/public-case.ts';
import { readPublicCases } from '../conformance/forms/read.ts';
import { readSchema } from '../conformance/forms/spicedb-schema.ts';
import { runPublicCase } from '../conformance/public-run.ts';

const example = (name: string): string =>
  fileURLToPath(new URL(`../conformance/examples/${name}`, import.meta.url));

describe('public test files', () => {
  let platform: TestPlatform;
  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
  });
  afterAll(() => platform.close());

  const run = async (file: string) => {
    const results = [];
    for (const one of await readPublicCases(file))
      results.push(await runPublicCase(platform.admin, one));
    return {
      asked: results.reduce((sum, { asked }) => sum + asked, 0),
      failures: results.flatMap(({ failures }) => failures),
      unmapped: results.flatMap(({ unmapped }) => unmapped),
    };
  };
  const written = async (name: string, text: string): Promise<string> => {
    const file = join(await temporaryFolder('conformance'), name);
    await writeFile(file, text);
    return file;
  };

  it('of OpenFGA are asked: a suite with stages', async () => {
    expect(await run(example('openfga-suite.yaml'))).toEqual({
      asked: 15,
      failures: [],
      unmapped: ['who 2: who-can asks for objects of one type, not for guild#member'],
    });
  });

  it('of OpenFGA are asked: a store', async () => {
    expect(await run(example('openfga-store.fga.yaml'))).toEqual({
      asked: 8,
      failures: [],
      unmapped: [],
    });
  });

  it('of OpenFGA name files of tuples: YAML, JSON, JSON lines and CSV', async () => {
    const folder = await temporaryFolder('conformance');
    const file = (name: string, text: string) => writeFile(join(folder, name), text);
    await file(
      'store.fga.yaml',
      [
        'model: "model\\n  schema 1.1\\ntype user\\ntype doc\\n  relations\\n    define viewer: [user, doc#viewer]"',
        'tuple_file: one.yaml',
        'tuple_files: [two.json, three.jsonl]',
        'tests:',
        '  - tuple_file: four.csv',
        '    check:',
        '      - { user: "user:d", object: "doc:5", assertions: { viewer: true } }',
        '    list_objects:',
        '      - { user: "user:a", type: doc, assertions: { viewer: ["doc:1"] } }',
        '      - { user: "user:d", type: doc, assertions: { viewer: ["doc:2", "doc:3", "doc:4", "doc:5"] } }',
      ].join('\n'),
    );
    await file('one.yaml', '- { user: "user:a", relation: viewer, object: "doc:1" }');
    const tuple = (object: string) => ({ user: 'user:d', relation: 'viewer', object });
    await file('two.json', JSON.stringify([tuple('doc:2')]));
    await file('three.jsonl', `${JSON.stringify(tuple('doc:3'))}\n`);
    await file(
      'four.csv',
      'user_type,user_id,user_relation,relation,object_type,object_id\nuser,d,,viewer,doc,4\ndoc,4,viewer,viewer,doc,5\n',
    );
    expect(await run(join(folder, 'store.fga.yaml'))).toEqual({
      asked: 3,
      failures: [],
      unmapped: [],
    });
  });

  it('of SpiceDB are asked', async () => {
    const { asked, failures, unmapped } = await run(example('spicedb-validation.yaml'));
    expect({ failures, unmapped }).toEqual({ failures: [], unmapped: [] });
    expect(asked).toBeGreaterThanOrEqual(12);
  });

  it('fail where an answer differs', async () => {
    const file = await written(
      'wrong.yaml',
      [
        'schema: |-',
        '  definition person {}',
        '  definition note { relation reader: person }',
        'relationships: |',
        '  note:a#reader@person:x',
        'assertions:',
        '  assertTrue: ["note:a#reader@person:y"]',
        '  assertFalse: ["note:a#reader@person:x"]',
        '  assertCaveated: ["note:a#reader@person:x"]',
      ].join('\n'),
    );
    const { failures } = await run(file);
    expect(failures).toHaveLength(3);
    expect(failures[0]).toBe('check person:y reader note:a {}: expected true, got false');
  });

  it('say what cannot be said here, and why', async () => {
    const file = await written(
      'unmapped.yaml',
      'schema: |-\n  definition a {\n    relation r: a\n    permission p = r & self\n  }\n',
    );
    expect(await run(file)).toEqual({
      asked: 0,
      failures: [],
      unmapped: ['`self` stands only among alternatives'],
    });
    expect(() => readModel('module core\ntype user')).toThrow(Unmapped);
    await expect(readPublicCases(await written('other.yaml', 'a: 1'))).rejects.toThrow('neither');
  });

  it('that cannot be read are named, each with the reason, beside those that can', async () => {
    const [none, empty] = ['/nowhere/tests.yaml', await written('cases.json', '{}')];
    const other = await written('other.yaml', 'a: 1');
    const own = fileURLToPath(ownCases);
    const { asking, unread } = await readFiles([none, own, empty, other]);
    expect(unread).toEqual([
      `${none} cannot be read: there is no such file`,
      `${empty} cannot be read: it has no list of "cases"`,
      `${other} cannot be read: it is neither a suite or store of OpenFGA nor a validation file of SpiceDB`,
    ]);
    expect(asking.length).toBeGreaterThan(50);
  });

  it('have their operators in the order of their language', () => {
    const schema = readSchema(
      'definition a { relation x: a relation y: a | a:* permission p = x + y & x - (y - x) }',
    );
    expect(schema.resources[0]?.permissions.p).toEqual({
      exclusion: {
        base: { intersection: [{ union: ['x', 'y'] }, 'x'] },
        subtract: { exclusion: { base: 'y', subtract: 'x' } },
      },
    });
    expect(schema.resources[0]?.relations.y).toEqual({ types: ['a', 'a:*'], strict: true });
  });
});
