/**
 * `docs/reference/` is made from the running platform. When this test says that a page is not what it
 * was, write it anew: `npm test -- acceptance/reference.test.ts -u`
 */
import { glob } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { AnyModule } from '../src/host/module.ts';
import { settingsHelp } from '../src/kernel/settings/settings.ts';
import { adminConfig } from '../src/modules/core/config.ts';
import type { Json } from '../test/support/api.ts';
import { createTestPlatform, type TestPlatform } from '../test/support/platform.ts';
import { resolveReferences } from './openapi.ts';
import {
  type ConfiguredModule,
  configurationPage,
  environmentPage,
  errorsPage,
  operationsPage,
} from './reference-pages.ts';
import { projectRoot } from './routes.ts';
import { switchOn } from './switched-on.ts';

const folder = '../docs/reference';

it('environment variables', async () => {
  await expect(environmentPage(settingsHelp())).toMatchFileSnapshot(`${folder}/environment.md`);
});

it('configuration', async () => {
  await expect(configurationPage(await configuredModules())).toMatchFileSnapshot(
    `${folder}/configuration.md`,
  );
});

/** Every module of `src/modules`, and the admin surface's own document, which the core module registers. */
async function configuredModules(): Promise<ConfiguredModule[]> {
  const modules: ConfiguredModule[] = [
    { name: 'admin', description: 'The admin surface', config: adminConfig },
  ];
  for await (const file of glob('src/modules/*/index.ts', { cwd: projectRoot })) {
    const exported: Record<string, unknown> = await import(join(projectRoot, file));
    modules.push(...Object.values(exported).filter(isModule));
  }
  return modules.sort((a, b) => (a.name < b.name ? -1 : 1));
}

const isModule = (value: unknown): value is AnyModule =>
  typeof value === 'object' && value !== null && 'requires' in value && 'config' in value;

describe('the reference of a running platform', () => {
  let platform: TestPlatform;
  let documents: { client: Json; admin: Json };
  beforeAll(async () => {
    platform = await createTestPlatform();
    await switchOn(platform.admin);
    const [client, admin] = await Promise.all(
      [platform.client, platform.admin].map((api) => api.get('/swagger.json')),
    );
    documents = { client: resolveReferences(client?.body), admin: resolveReferences(admin?.body) };
  });
  afterAll(() => platform.close());

  it('operations', async () => {
    await expect(operationsPage(documents)).toMatchFileSnapshot(`${folder}/operations.md`);
  });

  it('error codes', async () => {
    await expect(errorsPage(documents)).toMatchFileSnapshot(`${folder}/errors.md`);
  });
});
