/** The description of a platform with hundreds of schemas: small enough for the programs that read it. */
import { expect, it } from 'vitest';
import type { RecordStore } from '../src/data/records/store.ts';
import { compileDeclaration } from '../src/data/schema/compile/declaration.ts';
import { resolveOptions, storedModelOptions } from '../src/data/schema/language/options.ts';
import type { SchemaRegistry } from '../src/data/schema/registry/registry.ts';
import { createRecordRoutes } from '../src/modules/database/operations/record-routes.ts';
import { openApiDocument } from '../src/surfaces/openapi/document.ts';

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

it('takes at most 1.5 MB for 300 schemas', async () => {
  const routes = createRecordRoutes({} as RecordStore, {} as SchemaRegistry, console);
  const operations = routes
    .operations(schemas())
    .map((operation) => ({ owner: 'database/records', operation }));
  const text = await openApiDocument(operations, { surface: 'client', hostUrl: '' });
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
