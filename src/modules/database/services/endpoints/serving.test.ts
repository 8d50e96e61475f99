/** What is stored and contradicts itself has no routes; everything else that is stored keeps its own. */
import { expect, it } from 'vitest';
import { turnsDuring } from '../../../../../test/support/turns.ts';
import type { RecordStore } from '../../../../data/records/store.ts';
import type { CompiledSchema } from '../../../../data/schema/compile/compiled.ts';
import { compileDeclaration } from '../../../../data/schema/compile/declaration.ts';
import { resolveOptions, storedModelOptions } from '../../../../data/schema/language/options.ts';
import type { SchemaRegistry } from '../../../../data/schema/registry/registry.ts';
import { system } from '../../../../kernel/caller.ts';
import { newId } from '../../../../kernel/ids.ts';
import type { PermissionPort } from '../../../../kernel/permissions.ts';
import type { Logger } from '../../../../kernel/telemetry/logger.ts';
import { createRecordRoutes } from '../../operations/record-routes.ts';
import { createEndpointAdmin, type EndpointBody } from './admin.ts';
import { endpointOperation, type StoredEndpoint } from './definition.ts';
import { createEndpointServing } from './serving.ts';
import type { EndpointStore } from './store.ts';

const logged: string[] = [];
const note = (_facts: unknown, message: string): void => void logged.push(message);
const log = { error: note, warn: note } as unknown as Logger;

const open = { enabled: true };
const crudOperations = { create: open, read: open, update: open, delete: open };
const conduit = resolveOptions({ cms: { enabled: true, crudOperations } }, {}, true);
const post = compileDeclaration(
  {
    ...{ id: newId(), name: 'Post', ownerModule: 'database', parentSchema: null, version: 0 },
    ...{ fields: { title: 'String' }, extensions: [], dropped: {}, changes: [], checksum: '' },
    modelOptions: storedModelOptions(conduit, {}),
    layout: { columns: {}, indexes: {} },
    ...{ createdAt: new Date(0), updatedAt: new Date(0), removed: false },
  } as never,
  () => true,
);
const schemas = {
  get: (name: string) => (name === 'Post' ? post : undefined),
} as unknown as SchemaRegistry;

const stored = (name: string, wrong: object = {}): StoredEndpoint =>
  ({
    ...{ _id: newId(), name, selectedSchemaName: 'Post', operation: endpointOperation.get },
    ...{ authentication: false, paginated: false, sorted: false, matchAllWhenEmpty: false },
    ...{ inputs: [], assignments: [], query: null, endpointDescription: '' },
    ...{ aggregate: null, requires: null, ...wrong },
  }) as unknown as StoredEndpoint;

it('an endpoint that cannot even be looked at is left out, with the reason', async () => {
  const serving = createEndpointServing({ records: {} as RecordStore, schemas }, log);
  const [bad, good] = [stored('bad', { inputs: null }), stored('good')];
  expect(serving.problems(good)).toEqual([]);
  const { served, leftOut } = await serving.lookAt([bad, good]);
  expect(served.map(({ path }) => path)).toEqual(['/database/function/good']);
  expect(leftOut).toMatchObject([{ name: 'bad' }]);
  expect(serving.problems(bad)).toMatchObject([{ path: 'name', rule: 'served' }]);
  expect(logged).toHaveLength(1);
});

it('leaves others their turn between thousands of endpoints, whoever looks at them', async () => {
  const many = Array.from({ length: 30 }, (_, i) => stored(`many${i}`));
  const serving = createEndpointServing({ records: {} as RecordStore, schemas }, log);
  expect(await turnsDuring(() => serving.lookAt(many))).toBeGreaterThanOrEqual(30);

  const imported: unknown[] = [];
  const store = {
    all: () => many,
    import: async (_caller: unknown, definitions: readonly unknown[]) =>
      void imported.push(...definitions),
  } as unknown as EndpointStore;
  const permissions = { rules: new Map() } as unknown as PermissionPort;
  const admin = createEndpointAdmin(store, schemas, permissions);
  expect(await turnsDuring(() => admin.brokenBy([post]))).toBeGreaterThanOrEqual(30);
  const about = { operation: 0, selectedSchemaName: 'Post', query: {} };
  const bodies = many.map(({ name }) => ({ ...about, name }));
  const turns = await turnsDuring(() => admin.import(system('test'), bodies as EndpointBody[]));
  expect(turns).toBeGreaterThanOrEqual(30);
  expect(imported).toHaveLength(30);
});

it('a schema whose routes cannot be made is left out', () => {
  const routes = createRecordRoutes({} as RecordStore, schemas, log);
  const bad = { name: 'Bad' } as CompiledSchema;
  const paths = new Set(routes.operations([bad, post]).map(({ path }) => path));
  expect(paths).toContain('/database/Post');
  expect([...paths].filter((path) => path.includes('Bad'))).toEqual([]);
  expect(logged.at(-1)).toContain('left out');
});
