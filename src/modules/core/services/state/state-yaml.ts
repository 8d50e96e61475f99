/** A state as YAML, made document by document: of thousands at once nobody else would get a turn for seconds. */
import { createTimeSlices } from '../../../../kernel/time-slices.ts';
import type { ExportedState } from './platform-state.ts';

/** The text is that of the whole at once. The library is loaded by the first who asks for it. */
export async function stateYaml({ modules, ...head }: ExportedState): Promise<string> {
  const { yamlText } = await import('../../../../kernel/yaml-text.ts');
  const pause = createTimeSlices();
  const pieces = [yamlText(head)];
  const named = (depth: number, name: string, entries: readonly unknown[], empty: string): void => {
    const key = yamlText({ [name]: null }).slice(0, -'null\n'.length);
    const line = entries.length === 0 ? `${key}${empty}` : key.trimEnd();
    pieces.push(indented(`${line}\n`, depth));
  };
  named(0, 'modules', Object.keys(modules), '{}');
  for (const [module, types] of Object.entries(modules)) {
    named(1, module, Object.keys(types), '{}');
    for (const [type, documents] of Object.entries(types)) {
      named(2, type, documents, '[]');
      for (const document of documents) {
        pieces.push(indented(yamlText([document]), 3));
        await pause();
      }
    }
  }
  return pieces.join('');
}

/** Empty lines inside of texts stay empty. */
const indented = (text: string, depth: number): string =>
  text.replaceAll(/(^|\n)(?=[^\n])/g, `$1${'  '.repeat(depth)}`);
