import { describe, expect, it } from 'vitest';
import { findCircles } from './circles.ts';
import { parseSourceFile } from './imports.ts';

const circles = (files: Readonly<Record<string, string>>) =>
  findCircles(Object.entries(files).map(([path, text]) => parseSourceFile(path, text))).map(
    ({ folder, members }) => `${folder}: ${members.join(' ')}`,
  );

describe('circles between siblings', () => {
  it('finds two files that import each other, a type import included', () => {
    const files = {
      'src/kernel/a.ts': "import { b } from './b.ts';",
      'src/kernel/b.ts': "import type { A } from './a.ts';",
    };
    expect(circles(files)).toEqual(['src/kernel: a.ts b.ts']);
  });

  it('finds folders that need each other although no two of their files do', () => {
    const files = {
      'src/modules/chat/rooms/list.ts': "import '../messages/read.ts';",
      'src/modules/chat/rooms/names.ts': '',
      'src/modules/chat/messages/read.ts': '',
      'src/modules/chat/messages/write.ts': "export { x } from '../rooms/names.ts';",
    };
    expect(circles(files)).toEqual(['src/modules/chat: messages rooms']);
  });

  it('finds longer ways round, and names those who are in it only', () => {
    const files = {
      'src/data/a.ts': "import './b.ts'; import './leaf.ts';",
      'src/data/b.ts': "import './c.ts';",
      'src/data/c.ts': "type A = import('./a.ts').A;",
      'src/data/leaf.ts': '',
      'src/data/root.ts': "import './a.ts';",
    };
    expect(circles(files)).toEqual(['src/data: a.ts b.ts c.ts']);
  });

  it('lets arrows go one way, and tests look at everything', () => {
    const files = {
      'src/kernel/a.ts': "import './b/c.ts';",
      'src/kernel/b/c.ts': "import '../d.ts';",
      'src/kernel/d.ts': '',
      'src/kernel/d.test.ts': "import './a.ts'; import './d.ts';",
    };
    expect(circles(files)).toEqual([]);
  });
});
