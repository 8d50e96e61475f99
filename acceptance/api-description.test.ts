/** What the description of the API holds for programs that read it: small enough, and examples that work. */
import { Compile } from 'typebox/compile';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RecordStore } from '../src/data/records/store.ts';
import { compileDeclaration } from '../src/data/schema/compile/declaration.ts';
import { resolveOptions, storedModelOptions } from '../src/data/schema/language/options.ts';
import type { SchemaRegistry } from '../src/data/schema/registry/registry.ts';
import { jsonSchema } from '../src/kernel/operations/json-schema.ts';
import type { OwnedOperation } from '../src/kernel/operations/registry.ts';
import { readSettings } from '../src/kernel/settings/settings.ts';
import { createRecordRoutes } from '../src/modules/database/operations/record-routes.ts';
import { type Platform, startPlatform } from '../src/platform.ts';
import { openApiDocument } from '../src/surfaces/openapi/document.ts';
import { exampleOf } from '../src/surfaces/openapi/examples.ts';
import type { TestDatabase } from '../test/support/database.ts';
import { platformDatabase, testEnvironment } from '../test/support/platform.ts';
import { removeFolder, temporaryFolder } from '../test/support/temporary-folder.ts';

const SCHEMAS = 300;

/** Schemas of an ordinary size: eight fields, one of them a relation. */
function schemas() {
  const open = { enabled: true };
  const crudOperations = { create: open, read: open, update: open, delete: open };
  const conduit = resolveOptions({ cms: { enabled: true, crudOperations } }, {}, true);
  const now = new Date(0);
  return Array.from({ length: SCHEMAS }, (_, i) =>
    compileDeclaration(
      {
        id: `01990000-0000-7000-8000-${`${i}`.padStart(12, '0')}`,
        name: `Table${i}`,
        ownerModule: 'database',
        parentSchema: null,
        fields: {
          title: { type: 'String', required: true, maxLength: 200 },
          body: 'String',
          rank: 'Number',
          published: { type: 'Boolean', default: false },
          state: { type: 'String', enum: ['draft', 'public'] },
          publishedAt: 'Date',
          tags: ['String'],
          // Some have no relations, and so one form.
          ...(i % 10 > 0 && { next: { type: 'Relation', model: `Table${(i + 1) % SCHEMAS}` } }),
        },
        extensions: [],
        modelOptions: storedModelOptions(conduit, {}),
        layout: { columns: {}, indexes: {} },
        dropped: {},
        changes: [],
        checksum: '',
        version: 0,
        createdAt: now,
        updatedAt: now,
        removed: false,
      } as never,
      () => true,
    ),
  );
}

const ofRecords = (): readonly OwnedOperation[] =>
  createRecordRoutes({} as RecordStore, {} as SchemaRegistry, console)
    .operations(schemas())
    .map((operation) => ({ owner: 'database/records', operation }));

interface Node {
  readonly properties?: Readonly<Record<string, Node>>;
  readonly required?: readonly string[];
  readonly default?: unknown;
}

/** Properties with a default that have to be given all the same. */
function demandedDefaults({ properties = {}, required = [] }: Node): readonly string[] {
  return Object.entries(properties).flatMap(([name, node]) => [
    ...(required.includes(name) && node.default !== undefined ? [name] : []),
    ...demandedDefaults(node),
  ]);
}

describe('the description', () => {
  let database: TestDatabase;
  let platform: Platform;
  let dataDir: string;
  let operations: readonly OwnedOperation[];

  beforeAll(async () => {
    database = await platformDatabase('embedded');
    dataDir = await temporaryFolder('data');
    platform = await startPlatform({
      settings: readSettings(testEnvironment(dataDir, database.url)),
    });
    operations = platform.kernel.operations.all();
  });
  afterAll(async () => {
    await platform.close();
    await database.drop();
    await removeFolder(dataDir);
  });

  it('demands nothing that it says has a default', () => {
    const found = operations.flatMap(({ operation: { id, input } }) =>
      demandedDefaults((input.body ?? {}) as Node).map((name) => `${id}: ${name}`),
    );
    expect(found).toEqual([]);
  });

  it('takes at most 1.5 MB for all of the client surface with 300 schemas', async () => {
    const all = [...operations, ...ofRecords()];
    const text = await openApiDocument(all, { surface: 'client', hostUrl: '' });
    expect(text.length).toBeLessThan(1_500_000);
    const { paths, components } = JSON.parse(text);
    expect(Object.keys(paths)).toContain('/database/{schema}/many');
    // Every schema has its own routes and types all the same, and nothing refers to what is not there.
    expect(Object.keys(paths['/database/Table7/{id}'])).toEqual(
      expect.arrayContaining(['get', 'put', 'patch', 'delete']),
    );
    expect(components.schemas.Table7Create).toEqual({
      allOf: [{ $ref: '#/components/schemas/Table7Update' }],
      required: ['title'],
      example: { title: 'text' },
    });
    const example = { title: 'text', state: 'draft', tags: ['text'] };
    expect(components.schemas.Table7Fields.example).toMatchObject(example);
    expect(components.schemas.Table10.allOf).toHaveLength(2);
    expect(components.schemas.Table10.example).toMatchObject(example);
    const references = new Set(
      [...text.matchAll(/"\$ref":"#\/components\/(\w+)\/([^"]+)"/g)].map(String),
    );
    for (const reference of references) {
      const [, kind = '', name = ''] = /components\/(\w+)\/([^",]+)/.exec(reference) ?? [];
      expect(components[kind]).toHaveProperty([name]);
    }
  });

  it.each([
    ['client', ['POST /authentication/local', 'accessToken']],
    ['admin', ['secrets.json', 'POST /login', 'cdt_']],
  ] as const)(
    'says on the %s surface which credential to paste, by routes that exist',
    async (surface, parts) => {
      const { info, paths } = JSON.parse(
        await openApiDocument(operations, { surface, hostUrl: '' }),
      );
      for (const part of parts) expect(info.description).toContain(part);
      for (const [, method = '', path = ''] of info.description.matchAll(/`([A-Z]+) (\/[^`]*)`/g))
        expect(Object.keys(paths[path] ?? {})).toContain(method.toLowerCase());
    },
  );

  it('shows for every operation a body that it takes and an answer that it may give', () => {
    const wrong: string[] = [];
    for (const { operation } of operations) {
      const { input, output } = operation;
      for (const [place, shape] of Object.entries({ body: input.body, output })) {
        if (!shape) continue;
        const example = exampleOf(jsonSchema(shape));
        if (!Compile(shape).Check(example))
          wrong.push(`${operation.id} ${place}: ${JSON.stringify(example)}`);
      }
    }
    expect(wrong).toEqual([]);
  });
});
