/**
 * No dead settings: every key of every configuration is read by the product, outside of where it is declared. This is
 * a net and no proof: a key counts as read where a file names it, together with the key that holds it unless no other
 * key has its name.
 */
import { glob, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import type { AnyModule } from '../src/host/module.ts';
import type { JsonSchema } from '../src/kernel/operations/json-schema.ts';
import { adminConfig } from '../src/modules/core/config.ts';
import { modules } from '../src/platform.ts';
import { projectRoot } from './routes.ts';

interface Key {
  readonly path: string;
  readonly description: string;
}

function keysOf(schema: JsonSchema, path: string): readonly Key[] {
  const inside = Object.entries(schema.properties ?? {});
  // One value only is nothing to choose.
  if (inside.length === 0)
    return 'const' in schema ? [] : [{ path, description: schema.description ?? '' }];
  return inside.flatMap(([name, one]) => keysOf(one, `${path}.${name}`));
}

/** Switched on and off by the module host, whatever the module. */
const everyModule = /\.active$/;
/** Descriptions that say that there is no effect, for clients that set them. */
const declaredIdle =
  /without effect|cannot be switched off|nothing here does|not available in this version/i;

const all = [
  ...modules.map(({ name, config }: AnyModule) => ({ name, config })),
  { name: 'admin', config: adminConfig },
]
  .flatMap(({ name, config }) =>
    config ? keysOf(config.schema as unknown as JsonSchema, name) : [],
  )
  .filter(({ path, description }) => !everyModule.test(path) && !declaredIdle.test(description));

const lastOf = (path: string): string => path.slice(path.lastIndexOf('.') + 1);
const isAlone = (path: string): boolean =>
  all.filter((one) => lastOf(one.path) === lastOf(path)).length === 1;

describe('a key of a configuration is read', () => {
  const words: ReadonlySet<string>[] = [];
  beforeAll(async () => {
    const declarations = /\.test\.ts$|^modules\/[^/]+\/config(\.ts$|\/)/;
    for await (const file of glob('**/*.ts', { cwd: join(projectRoot, 'src') })) {
      if (declarations.test(file)) continue;
      const code = (await readFile(join(projectRoot, 'src', file), 'utf8')).replaceAll(
        /\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm,
        '',
      );
      words.push(new Set(code.match(/[A-Za-z_]\w*/g)));
    }
  });

  it.each(all)('$path', ({ path }) => {
    const [holder = '', name = ''] = path.split('.').slice(-2);
    const isPlain = path.split('.').length === 2 || isAlone(path);
    const isRead = words.some(
      (found) => found.has(name) && (isPlain || holder.split('-').every((word) => found.has(word))),
    );
    expect(isRead, `nothing reads ${path}`).toBe(true);
  });
});
