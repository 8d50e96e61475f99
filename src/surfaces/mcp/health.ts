/** What this server has to offer, for panels and probes that do not speak the protocol. */
import type { Answer } from '../../kernel/operations/answer.ts';
import type { Resources } from './resources.ts';
import { serverInfo } from './server.ts';
import type { Toolbox } from './toolbox.ts';

/** The newest version of the protocol that is spoken. */
export const newestProtocol = '2026-07-28';

export function healthAnswer(toolbox: Toolbox, resources: Resources): Answer {
  const modules = toolbox.groups();
  const listed = resources.list().resources.map(({ uri }) => uri);
  const health = {
    status: 'healthy',
    protocol: 'mcp',
    version: newestProtocol,
    serverInfo,
    tools: { total: toolbox.all.length, enabled: toolbox.loaded.length },
    resources: { total: listed.length, list: listed },
    modules: { total: modules.length, loaded: modules.filter(({ loaded }) => loaded).length, list: modules },
    uptime: Math.floor(process.uptime()),
  };
  return { status: 200, headers: {}, body: JSON.stringify(health), json: true };
}
