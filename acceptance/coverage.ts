/** `npm run coverage`: writes `acceptance/COVERAGE.md` from `acceptance/routes.json`. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { coveragePage } from './coverage-page.ts';
import { projectRoot, readRoutes } from './routes.ts';

const routes = readRoutes();
writeFileSync(join(projectRoot, 'acceptance/COVERAGE.md'), coveragePage(routes));
process.stdout.write(
  `acceptance/COVERAGE.md: ${routes.filter(({ state }) => state === 'works').length} of ${routes.length} routes work\n`,
);
