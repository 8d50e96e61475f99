/** An MCP server for one request: nothing is kept between requests, so any node answers any of them. */
import { type ListToolsResult, ProtocolError, ProtocolErrorCode, ResourceNotFoundError, Server } from '@modelcontextprotocol/server';
import { version } from '../../kernel/version.ts';
import { requireDeclared, type ToolCaller } from './call-tool.ts';
import { metaTools } from './meta-tools.ts';
import type { Resources } from './resources.ts';
import type { Toolbox } from './toolbox.ts';

/** What a request brought. */
export interface McpRequest {
  readonly toolbox: Toolbox;
  readonly tools: ToolCaller;
  readonly resources: Resources;
}

export const serverInfo = { name: 'penstock-admin', title: 'Penstock', version };

const instructions =
  'The admin surface of a Penstock installation. Only the core module is loaded unless the address asks for more with ?modules=a,b ' +
  '(list_modules names them). Read the resource service://docs/api-guide first.';

export function createServer({ toolbox, tools, resources }: McpRequest): Server {
  const server = new Server(serverInfo, {
    capabilities: { tools: { listChanged: false }, resources: { listChanged: false } },
    instructions,
  });
  const meta = metaTools(toolbox, (tool, args) => tools.call(tool, args));

  server.setRequestHandler('tools/list', () => {
    const listed = [...meta.map(({ description }) => description), ...toolbox.loaded.map(({ description }) => description)];
    return { tools: listed } as unknown as ListToolsResult;
  });
  server.setRequestHandler('tools/call', ({ params: { name, arguments: args = {} } }) => {
    const own = meta.find((tool) => tool.name === name);
    if (own) {
      requireDeclared(own, args);
      return own.call(args);
    }
    const tool = toolbox.find(name);
    if (!tool) throw new ProtocolError(ProtocolErrorCode.InvalidParams, `There is no tool ${name}. ${howToLoad(toolbox, name)}`);
    return tools.call(tool, args);
  });
  server.setRequestHandler('resources/list', () => resources.list());
  server.setRequestHandler('resources/templates/list', () => resources.templates());
  server.setRequestHandler('resources/read', ({ params: { uri } }) => {
    const found = resources.read(uri);
    if (found) return found;
    throw new ResourceNotFoundError(uri);
  });
  return server;
}

function howToLoad({ all }: Toolbox, name: string): string {
  const group = all.find((tool) => tool.name === name)?.group;
  return group === undefined ? 'list_modules says what can be loaded' : `Load it: connect with ?modules=${group}`;
}
