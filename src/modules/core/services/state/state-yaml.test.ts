import fc from 'fast-check';
import { expect, it } from 'vitest';
import { turnsDuring } from '../../../../../test/support/turns.ts';
import { yamlText } from '../../../../kernel/yaml-text.ts';
import { stateYaml } from './state-yaml.ts';

const head = {
  formatVersion: 1,
  platformVersion: '1.0.0',
  checksum: 'abc',
  configs: { modules: {} },
};
const names = fc.constantFrom('database', 'functions', 'a b', 'null', '1', 'x: y', '');

const text = fc.string({ unit: fc.constantFrom('a', ' ', '\n', ':', '-', '\u2028', '\r') });
const document = fc.dictionary(text, fc.oneof(text, fc.jsonValue({ maxDepth: 2 })), { maxKeys: 4 });

it('is the text of the whole, made document by document', async () => {
  const modules = fc.dictionary(
    names,
    fc.dictionary(names, fc.array(document, { maxLength: 3 }), {
      maxKeys: 2,
    }),
    { maxKeys: 2 },
  );
  await fc.assert(
    fc.asyncProperty(modules, async (some) => {
      const state = { ...head, modules: some };
      expect(await stateYaml(state)).toBe(yamlText(state));
    }),
    { numRuns: 300 },
  );
});

it('leaves others their turn between the documents', async () => {
  const schemas = Array.from({ length: 30 }, (_, i) => ({ name: `Schema${i}` }));
  const state = { ...head, modules: { database: { schemas } } };
  expect(await turnsDuring(() => stateYaml(state))).toBeGreaterThanOrEqual(30);
});
