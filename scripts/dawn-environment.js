import { existsSync, realpathSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';

/**
 * What Dawn needs in the environment before Node starts: on Linux the loader of Vulkan and SwiftShader come from the
 * browser's folder. Undefined: they are not there.
 *
 * @param {string} browser path of its executable
 * @returns {Record<string, string> | undefined}
 */
export function dawnEnvironment(browser) {
  if (process.platform !== 'linux') return {};
  const folders = [
    dirname(realpathSync(browser)),
    ...['/usr/lib/chromium', '/usr/lib/chromium-browser', '/opt/google/chrome', '/opt/microsoft/msedge'],
  ];
  const folder = folders.find((path) =>
    ['libvulkan.so.1', 'vk_swiftshader_icd.json'].every((name) => existsSync(join(path, name))),
  );
  if (folder === undefined) return undefined;
  return {
    LD_LIBRARY_PATH: [folder, process.env.LD_LIBRARY_PATH].filter(Boolean).join(delimiter),
    VK_ICD_FILENAMES: join(folder, 'vk_swiftshader_icd.json'),
  };
}
