import { describe, expect, it } from 'vitest';
import { findViolations } from './arrows.ts';
import { parseSourceFile } from './imports.ts';

const rules = (files: Readonly<Record<string, string>>) =>
  findViolations(Object.entries(files).map(([path, text]) => parseSourceFile(path, text))).map(
    ({ rule }) => rule,
  );

describe('the direction of dependencies', () => {
  it('lets modules and surfaces use the kernel, and the composition root everything', () => {
    const files = {
      'src/main.ts':
        "import './platform.ts'; import './modules/chat/index.ts'; import './surfaces/http/start.ts';",
      'src/modules/chat/services/rooms.ts':
        "import { sql } from '../../../kernel/database/sql.ts';",
      'src/surfaces/http/start.ts': "import type { Kernel } from '../../kernel/kernel.ts';",
    };
    expect(rules(files)).toEqual([]);
  });

  it.each([
    [
      'src/host/kernel.ts',
      "import type { X } from '../modules/chat/index.ts';",
      'kernel, data and host know no zone above them',
    ],
    [
      'src/kernel/reply.ts',
      "export * from '../surfaces/http/start.ts';",
      'kernel, data and host know no zone above them',
    ],
    [
      'src/kernel/reply.ts',
      "import type { X } from '../data/records/store.ts';",
      'kernel, data and host know no zone above them',
    ],
    [
      'src/data/records/store.ts',
      "import type { X } from '../../host/kernel.ts';",
      'kernel, data and host know no zone above them',
    ],
    [
      'src/surfaces/http/start.ts',
      "const m = await import('../../modules/chat/index.ts');",
      'a surface knows operations, never modules',
    ],
    [
      'src/modules/chat/index.ts',
      "import '../../surfaces/http/start.ts';",
      'a module knows no surface',
    ],
    [
      'src/modules/chat/index.ts',
      "type M = import('../../main.ts').M;",
      'only the composition root knows the composition root',
    ],
    [
      'src/modules/chat/index.ts',
      "import '../../../test/support/api.ts';",
      'product code imports nothing from outside src/',
    ],
    [
      'src/modules/chat/index.ts',
      "import '../storage/files.ts';",
      'a module imports another module only through its index.ts',
    ],
    [
      'src/modules/chat/index.ts',
      "import '../storage/index.ts';",
      'module chat does not name storage under "requires"',
    ],
  ])('%s: %s', (path, text, rule) => {
    expect(rules({ [path]: text })).toEqual([rule]);
  });

  it('allows the index of a required module, also from files below', () => {
    const files = {
      'src/modules/chat/index.ts': `import { storage } from '../storage/index.ts';
        export const chat = defineModule({ name: 'chat', requires: { files: storage }, start });`,
      'src/modules/chat/services/rooms.ts':
        "import type { StorageService } from '../../storage/index.ts';",
    };
    expect(rules(files)).toEqual([]);
  });

  it('lets tests import anything', () => {
    expect(
      rules({ 'src/kernel/kernel.test.ts': "import '../modules/chat/services/rooms.ts';" }),
    ).toEqual([]);
  });
});
